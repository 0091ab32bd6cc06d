# 1000 objects of 48 bytes, each made with `new` beside what else is made meanwhile.
BEGIN {
  for (i = 1; i <= 1000; i++) {
    print "a", i, 48, "by=Projectile::new"
    print "a", 10000 + i, 200 + i % 7 * 48, "by=Effect::new"
  }
}
