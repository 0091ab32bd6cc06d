# Each thread uses a run of granules, a block of 1 MiB, and gives it back at once. Without
# `cold`, `runs` of them take turns; with it a cycle is seven that come back and three of
# twelve others.
function use(thread) { print "a", thread, 1000, 1048576; print "f", thread, 1000 }
BEGIN {
  threads = cold ? 19 : runs
  for (t = 1; t <= threads; t++) print "a", t, t, 8
  for (c = 0; c < 1000; c++) {
    if (!cold) for (t = 1; t <= runs; t++) use(t)
    if (cold) { for (t = 1; t <= 7; t++) use(t); for (i = 0; i < 3; i++) use(8 + (c * 3 + i) % 12) }
  }
}
