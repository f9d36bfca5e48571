#include "native/bulk/affinity.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "native/binary/types.h"
#include "native/wire/partition.h"

namespace ignite_strategy {
namespace {

constexpr std::size_t kObjectHashOffset = 8;

std::int32_t Fold(std::uint64_t value) { return static_cast<std::int32_t>(value ^ (value >> 32)); }

}  // namespace

std::optional<PartitionMap> ParsePartitionMap(Reader& reader, std::int32_t cache_id) {
  reader.Skip(8 + 4);  // topology version
  std::optional<PartitionMap> found;
  const std::size_t groups = reader.Count(5);
  for (std::size_t group = 0; group < groups; ++group) {
    const bool applicable = reader.GetBool();
    const std::size_t caches = reader.Count(4);
    PartitionMap map;
    bool mine = false;
    for (std::size_t i = 0; i < caches; ++i) {
      const bool this_one = reader.Get<std::int32_t>() == cache_id;
      mine = mine || this_one;
      if (!applicable) continue;
      const std::size_t key_types = reader.Count(8);
      if (this_one && key_types > 0) map.key_field = true;
      reader.Skip(8 * key_types);
    }
    if (!applicable) continue;
    const std::size_t nodes = reader.Count(5);
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::optional<Uuid> node = reader.TypedUuid();
      std::vector<std::int32_t> partitions(reader.Count(4));
      for (std::int32_t& partition : partitions) {
        partition = GetPartition(reader);
        map.partitions = std::max(map.partitions, partition + 1);
      }
      if (node) map.primaries[*node] = std::move(partitions);
    }
    if (mine) found = std::move(map);
  }
  return found;
}

std::optional<std::int32_t> KeyHash(Reader key) {
  const std::uint8_t* start = key.at();
  switch (key.Get<std::uint8_t>()) {
    case 1:
      return key.Get<std::int8_t>();
    case 2:
      return key.Get<std::int16_t>();
    case 3:
    case 5:  // float: its bits
      return key.Get<std::int32_t>();
    case 4:
    case 6:   // double: its bits
    case 11:  // date: its milliseconds
      return Fold(key.Get<std::uint64_t>());
    case 7:
      return key.Get<std::uint16_t>();
    case 8:
      return key.GetBool() ? 1231 : 1237;
    case 9: {
      const std::size_t size = key.Count(1);
      return JavaHash(std::string_view(reinterpret_cast<const char*>(key.Bytes(size)), size));
    }
    case 10: {
      const auto most = key.Get<std::uint64_t>();
      return Fold(most ^ key.Get<std::uint64_t>());
    }
    case code::kObject: {
      Reader header(start, key.left() + 1);
      header.Skip(kObjectHashOffset);
      return header.Get<std::int32_t>();
    }
    default:
      return std::nullopt;
  }
}

std::int32_t PartitionOf(std::int32_t hash, std::int32_t partitions) {
  const auto bits = static_cast<std::uint32_t>(hash);
  if ((partitions & (partitions - 1)) == 0) {
    return static_cast<std::int32_t>((bits ^ (bits >> 16)) & static_cast<std::uint32_t>(partitions - 1));
  }
  return std::abs(hash % partitions);
}

}  // namespace ignite_strategy
