//! Small, seeded randomness (splitmix64), the same on every machine.

/// A generator.
pub struct Random(u64);

impl Random {
    /// Uses `SANDBOXC_TEST_SEED`, or a fixed seed. The seed is printed, so that a failure can be reproduced.
    pub fn seeded() -> Self {
        let seed = std::env::var("SANDBOXC_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_251_129);
        println!("SANDBOXC_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
