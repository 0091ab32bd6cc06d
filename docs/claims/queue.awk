# 2870 blocks are freed at once, then `n` allocated.
BEGIN {
  for (i = 1; i <= 2870; i++) print "a", i, 48
  for (i = 1; i <= 2870; i++) print "f", i
  for (i = 1; i <= n; i++) print "a", 5000 + i, 48
}
