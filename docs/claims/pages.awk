# 260 pages of 4 KiB fill the memory; two that lie apart are freed; two together are wanted.
BEGIN {
  for (i = 1; i <= 260; i++) print "a", i, 4096
  print "f 3\nf 5\na 1000 8192"
}
