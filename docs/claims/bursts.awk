# A level: 60 blocks in each frame, one more in every third; all freed in every 100th frame
# but 20, which are freed in each.
BEGIN {
  print "m"
  for (f = 0; f < 600; f++) {
    for (i = 0; i < 60 + (f % 3 == 0); i++) print "a", ++last, 48
    frees = (f % 100 == 99) ? last - first : 20
    for (i = 0; i < frees; i++) print "f", ++first
    print "m took=16.67ms"
  }
}
