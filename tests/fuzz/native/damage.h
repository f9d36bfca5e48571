// Damages messages, the same way for the same chance.
#ifndef IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_DAMAGE_H_
#define IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_DAMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ignite_strategy {

using Bytes = std::vector<std::uint8_t>;

// Numbers that look random and follow from the first.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u) {}
  std::uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  std::size_t Below(std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(Next() >> 11) % limit;
  }

 private:
  std::uint64_t state_;
};

// Bits flipped, bytes and type codes replaced, lengths taken to extremes or a little off, cut off, pieces
// removed, doubled, moved or taken from `other`. At most 64 KiB are left.
void Damage(Bytes& data, const Bytes& other, Chance& chance);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_TESTS_FUZZ_NATIVE_DAMAGE_H_
