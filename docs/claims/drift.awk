# 2400 frames, as if one in 60 of a play of 40 minutes: World::spawn costs 60 ns in the first
# tenth and twice that in the last, give or take some; Hud::show_label costs what it did.
BEGIN {
  print "m"
  for (f = 0; f < 2400; f++) {
    factor = f < 240 ? 1 : f >= 2160 ? 2 : 1 + (f - 240) / 1920
    for (i = 0; i < 3; i++) {
      print "a", ++id, 48, "took=" int((58 + (f * 7 + i) % 5) * factor) "ns", "by=World::spawn"
      print "f", id
      print "a", ++id, 48, "took=" 57 + (f * 3 + i) % 7 "ns", "by=Hud::show_label"
      print "f", id
    }
    print "m took=16.67ms"
  }
}
