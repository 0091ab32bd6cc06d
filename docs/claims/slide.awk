# The picture of fragmentation: a unit under a dot is released, the first of them before
# the first picture. Frame 0 ends before the release, frame 1 behind it.
BEGIN {
  print "m"
  for (i = 0; i < 16; i++) print "a", i, 4194304
  first = index(picture, ".") - 1
  print "f", first "\nm"
  for (i = 0; i < 16; i++) if (i != first && substr(picture, i + 1, 1) == ".") print "f", i
  print "m\na 100 25165824\nm"
}
