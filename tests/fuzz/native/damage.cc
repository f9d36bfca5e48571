#include "tests/fuzz/native/damage.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ignite_strategy {
namespace {

constexpr std::size_t kMaxInput = 1 << 16;

void Overwrite(Bytes& data, std::size_t at, const void* value, std::size_t size) {
  if (at >= data.size()) return;
  std::memcpy(data.data() + at, value, std::min(size, data.size() - at));
}

}  // namespace

void Damage(Bytes& data, const Bytes& other, Chance& chance) {
  static constexpr std::uint8_t kCodes[] = {1,  3,  9,  10, 12, 14, 20,  23,  24,  25,   27,
                                            28, 29, 30, 33, 34, 99, 101, 102, 103, 0xfe, 0xfd};
  static constexpr std::int32_t kSizes[] = {0,          1,      -1, 2, 24, 23, 0x7fffffff, -0x7fffffff - 1,
                                            0x40000000, 0xffff, 255};
  static constexpr std::size_t kTimes[] = {1, 1, 1, 2, 4, 8};
  for (std::size_t times = kTimes[chance.Below(std::size(kTimes))]; times > 0; --times) {
    const std::size_t at = chance.Below(data.size() + 1);
    const std::size_t size = std::size_t{1} << chance.Below(7);
    const auto place = [&](std::size_t where) { return data.begin() + static_cast<std::ptrdiff_t>(where); };
    const std::size_t end = std::min(data.size(), at + size);
    switch (chance.Below(10)) {
      case 0:
        if (at < data.size()) data[at] ^= static_cast<std::uint8_t>(1u << chance.Below(8));
        break;
      case 1:
        if (at < data.size()) data[at] = static_cast<std::uint8_t>(chance.Next());
        break;
      case 2:
        if (at < data.size()) data[at] = kCodes[chance.Below(std::size(kCodes))];
        break;
      case 3:
        Overwrite(data, at, &kSizes[chance.Below(std::size(kSizes))], 4);
        break;
      case 4: {  // a number a little larger or smaller than it was
        std::int32_t value = 0;
        if (at + 4 > data.size()) break;
        std::memcpy(&value, data.data() + at, 4);
        const auto moved =
            static_cast<std::uint32_t>(value) + static_cast<std::uint32_t>(chance.Below(17)) - 8u;
        Overwrite(data, at, &moved, 4);
        break;
      }
      case 5:
        data.resize(at);
        break;
      case 6:
        data.erase(place(at), place(end));
        break;
      case 7: {  // doubled
        const Bytes piece(place(at), place(end));
        data.insert(place(at), piece.begin(), piece.end());
        break;
      }
      case 8: {  // a piece of another recording
        const std::size_t from = chance.Below(other.size() + 1);
        const std::size_t to = std::min(other.size(), from + 4 * size);
        data.insert(place(at), other.begin() + static_cast<std::ptrdiff_t>(from),
                    other.begin() + static_cast<std::ptrdiff_t>(to));
        break;
      }
      default: {
        const std::size_t from = chance.Below(data.size() + 1);
        const std::size_t count = std::min({size, data.size() - from, data.size() - at});
        if (count > 0) std::memmove(data.data() + at, data.data() + from, count);
      }
    }
    if (data.size() > kMaxInput) data.resize(kMaxInput);
  }
}

}  // namespace ignite_strategy
