# 40 threads with a block in each of 12 size classes, and 166 blocks of 512 KiB.
BEGIN {
  split("8 16 32 48 64 80 96 112 128 160 192 224", size)
  for (thread = 1; thread <= 40; thread++)
    for (class = 1; class <= 12; class++) print "a", thread, ++id, size[class]
  for (i = 0; i < 166; i++) print "a", i % 40 + 1, ++id, 524288
}
