# 40 threads, five of which work for the frame: 200 frames with 400 allocations each, freed
# a few at a time, and three quarters of them in every twentieth frame.
function below(n) { state = (state * 16807) % 2147483647; return state % n }
BEGIN {
  state = 1
  for (t = 1; t <= 40; t++) print "t", t, (t <= 5 ? "critical" : "background")
  print "m 1"
  for (f = 0; f < 200; f++) {
    for (i = 0; i < 400; i++) {
      bits = 2 ^ (4 + below(9))
      print "a", below(40) + 1, ++id, bits + below(bits)
      live[n++] = id
    }
    frees = (f % 20 == 19) ? int(n * 3 / 4) : int(n / 50)
    for (i = 0; i < frees; i++) {
      at = below(n); print "f", below(40) + 1, live[at]; live[at] = live[--n]
    }
    print "m 1 took=16.67ms"
  }
}
