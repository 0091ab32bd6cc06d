# Four workers use 4 MiB at most in a frame and 3 MiB in the others; all of it dies with it.
BEGIN {
  print "m 1"
  for (f = 0; f < 8; f++) {
    for (t = 1; t <= 4; t++) for (i = 0; i < (f == 5 ? 64 : 48); i++) print "a", t, t * 100 + i, 65536
    for (t = 1; t <= 4; t++) for (i = 0; i < (f == 5 ? 64 : 48); i++) print "f", t, t * 100 + i
    print "m 1"
  }
}
