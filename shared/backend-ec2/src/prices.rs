//! About what a machine costs an hour, on demand. EC2 has no call that tells: this is a list of Linux prices of us-east-1, by family, since
//! inside a family the price follows the size. It is approximate: other regions are dearer by some 5 to 60 percent, in much the same order.

use motorpool_domain::ladder::Price;
use motorpool_domain::spec::Spec;

/// What one type costs on demand, about.
pub(crate) fn on_demand(instance_type: &str, spec: Spec) -> Price {
    let family = instance_type.split('.').next().unwrap_or(instance_type);
    let known = FAMILIES.binary_search_by_key(&family, |(name, _)| name).ok().and_then(|at| FAMILIES.get(at));
    let micros = match known {
        Some((_, By::Cpu(micros))) => u64::from(spec.cpu) * micros,
        Some((_, By::Gibibyte(micros))) => spec.memory_mb * micros / 1_024,
        None => u64::from(spec.cpu) * CPU_OF_ANY + spec.memory_mb * GIBIBYTE_OF_ANY / 1_024,
    };
    Price::from_micro_dollars(micros)
}

/// What a family's price follows, in millionths of a dollar an hour.
enum By {
    Cpu(u64),
    /// The burstable families: their small sizes have two CPUs as well, and less memory.
    Gibibyte(u64),
}

/// Of a family that is not in the list. It meets the prices of c6i, m6i and r6i within 2 percent.
const CPU_OF_ANY: u64 = 35_600;
const GIBIBYTE_OF_ANY: u64 = 3_300;

/// In the order of their names.
const FAMILIES: [(&str, By); 68] = [
    ("c5", By::Cpu(42_500)),
    ("c5a", By::Cpu(38_500)),
    ("c5ad", By::Cpu(43_000)),
    ("c5d", By::Cpu(48_000)),
    ("c5n", By::Cpu(54_000)),
    ("c6a", By::Cpu(38_250)),
    ("c6g", By::Cpu(34_000)),
    ("c6gd", By::Cpu(38_400)),
    ("c6gn", By::Cpu(43_200)),
    ("c6i", By::Cpu(42_500)),
    ("c6id", By::Cpu(50_400)),
    ("c6in", By::Cpu(56_700)),
    ("c7a", By::Cpu(51_320)),
    ("c7g", By::Cpu(36_250)),
    ("c7gd", By::Cpu(45_350)),
    ("c7gn", By::Cpu(62_400)),
    ("c7i", By::Cpu(44_625)),
    ("c7i-flex", By::Cpu(42_390)),
    ("c8g", By::Cpu(39_880)),
    ("i3", By::Cpu(78_000)),
    ("i3en", By::Cpu(113_000)),
    ("i4i", By::Cpu(85_800)),
    ("m5", By::Cpu(48_000)),
    ("m5a", By::Cpu(43_000)),
    ("m5ad", By::Cpu(51_500)),
    ("m5d", By::Cpu(56_500)),
    ("m5dn", By::Cpu(68_000)),
    ("m5n", By::Cpu(59_500)),
    ("m5zn", By::Cpu(82_600)),
    ("m6a", By::Cpu(43_200)),
    ("m6g", By::Cpu(38_500)),
    ("m6gd", By::Cpu(45_200)),
    ("m6i", By::Cpu(48_000)),
    ("m6id", By::Cpu(59_325)),
    ("m6idn", By::Cpu(79_560)),
    ("m6in", By::Cpu(69_615)),
    ("m7a", By::Cpu(57_960)),
    ("m7g", By::Cpu(40_800)),
    ("m7gd", By::Cpu(53_400)),
    ("m7i", By::Cpu(50_400)),
    ("m7i-flex", By::Cpu(47_880)),
    ("m8g", By::Cpu(44_880)),
    ("r5", By::Cpu(63_000)),
    ("r5a", By::Cpu(56_500)),
    ("r5ad", By::Cpu(65_500)),
    ("r5b", By::Cpu(74_500)),
    ("r5d", By::Cpu(72_000)),
    ("r5dn", By::Cpu(83_500)),
    ("r5n", By::Cpu(74_500)),
    ("r6a", By::Cpu(56_700)),
    ("r6g", By::Cpu(50_400)),
    ("r6gd", By::Cpu(57_600)),
    ("r6i", By::Cpu(63_000)),
    ("r6id", By::Cpu(75_600)),
    ("r6idn", By::Cpu(97_690)),
    ("r6in", By::Cpu(87_165)),
    ("r7a", By::Cpu(76_075)),
    ("r7g", By::Cpu(53_550)),
    ("r7gd", By::Cpu(68_050)),
    ("r7i", By::Cpu(66_150)),
    ("r7iz", By::Cpu(93_000)),
    ("r8g", By::Cpu(58_915)),
    ("t2", By::Gibibyte(11_600)),
    ("t3", By::Gibibyte(10_400)),
    ("t3a", By::Gibibyte(9_400)),
    ("t4g", By::Gibibyte(8_400)),
    ("x2gd", By::Cpu(83_500)),
    ("z1d", By::Cpu(93_000)),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn price(instance_type: &str, cpu: u32, gib: u64) -> u64 {
        on_demand(instance_type, Spec { cpu, memory_mb: gib * 1_024 }).micro_dollars()
    }

    #[test]
    fn a_familys_price_follows_its_size() {
        assert_eq!(price("c6i.large", 2, 4), 85_000);
        assert_eq!(price("c6i.4xlarge", 16, 32), 680_000);
        assert_eq!(price("m7i-flex.large", 2, 8), 95_760);
        assert_eq!(price("t3.medium", 2, 4), 41_600);
        assert_eq!(price("t3.large", 2, 8), 83_200);
    }

    #[test]
    fn an_unknown_family_is_estimated_near_its_like() {
        for (cpu, gib, like) in [(2, 4, 85_000), (2, 8, 96_000), (2, 16, 126_000)] {
            let estimate = price("q99.large", cpu, gib);
            assert!(estimate.abs_diff(like) * 50 < like, "{estimate} is not like {like}");
        }
    }

    #[test]
    fn the_list_is_in_order() {
        assert!(FAMILIES.is_sorted_by_key(|(name, _)| *name));
    }
}
