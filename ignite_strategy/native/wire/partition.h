// The number of a partition, as servers send it.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_PARTITION_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_PARTITION_H_

#include <cstdint>
#include <string>

#include "native/wire/buffer.h"
#include "native/wire/error.h"

namespace ignite_strategy {

constexpr std::int32_t kMaxPartition = 64999;  // Ignite allows 65,000 partitions

// Memory and loops follow from it: throws Error(kDataLoss) for a number that no partition has.
inline std::int32_t GetPartition(Reader& reader) {
  const auto partition = reader.Get<std::int32_t>();
  if (partition < 0 || partition > kMaxPartition)
    throw Error(Code::kDataLoss, "a partition is numbered " + std::to_string(partition));
  return partition;
}

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_PARTITION_H_
