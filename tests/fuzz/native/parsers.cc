#include "tests/fuzz/native/parsers.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "native/binary/describe.h"
#include "native/binary/metadata.h"
#include "native/binary/types.h"
#include "native/bulk/affinity.h"
#include "native/scan/config.h"
#include "native/scan/discover.h"
#include "native/wire/handshake.h"
#include "native/wire/response.h"
#include "tests/fuzz/native/rows.h"

namespace ignite_strategy {
namespace {

constexpr Version kNewest{1, 7, 0};

Reader Read(const Bytes& data) { return Reader(data.data(), data.size()); }

void ParseRows(const std::vector<Bytes>& parts) {
  const ScanConfig config = ScanConfig::Parse(std::string(parts[0].begin(), parts[0].end()));
  std::map<std::int32_t, const Bytes*> types;
  for (std::size_t i = 2; i + 1 < parts.size(); i += 2) {
    std::int32_t id = 0;
    std::memcpy(&id, parts[i].data(), std::min<std::size_t>(4, parts[i].size()));
    types[id] = &parts[i + 1];
  }
  const TypeCache::Fetch fetch = [&](std::int32_t id) -> std::optional<TypeMetadata> {
    const auto found = types.find(id);
    if (found == types.end()) return std::nullopt;
    Reader reader = Read(*found->second);
    return ParseTypeMetadata(reader);
  };
  TypeCache cache(fetch);
  try {
    Describer describer(&cache);
    Reader reader = Read(parts[1]);
    while (reader.left() > 0) describer.AddRow(reader);
  } catch (const Error&) {
    // The decoder may still read some of it.
  }
  RowDecoder decoder(config.columns, &cache, "these rows", config.value_type);
  MakeBatches(config, decoder, Read(parts[1]), std::numeric_limits<std::int64_t>::max());
}

}  // namespace

void ParseColumns(const Bytes& description) {
  const ScanConfig config = ScanConfig::Parse(std::string(description.begin(), description.end()));
  TypeCache none([](std::int32_t) { return std::nullopt; });
  RowDecoder(config.columns, &none, "no rows", config.value_type);
}

Frame FrameOf(const Bytes& bytes) {
  Frame frame;
  frame.Resize(bytes.size(), 0);
  std::copy(bytes.begin(), bytes.end(), frame.data());
  return frame;
}

void Parse(int kind, const std::vector<Bytes>& parts) {
  Reader reader = Read(parts[0]);
  switch (kind) {
    case kRows:
      ParseRows(parts);
      break;
    case kResponse: {
      try {
        ParseResponse(Version{1, 2, 0}, FrameOf(parts[0]));
      } catch (const Error&) {
        // It was recorded with the newest version.
      }
      const std::optional<Response> response = ParseResponse(kNewest, FrameOf(parts[0]));
      if (!response) break;
      Reader payload = response->payload();
      try {
        while (payload.left() > 0) SkipValue(payload);
      } catch (const Error&) {
        // A payload is more than values.
      }
      break;
    }
    case kMetadata:
      ParseTypeMetadata(reader);
      break;
    case kConfiguration: {
      Reader again = reader;
      try {
        ParseQueryEntities(again, Version{1, 1, 0});
      } catch (const Error&) {
        // It was recorded with the newest version.
      }
      ParseQueryEntities(reader, kNewest);
      break;
    }
    case kHandshake: {
      const HandshakeAnswer answer = ParseHandshake(kNewest, reader);
      if (!answer.accepted) NextVersion("somewhere", kNewest, answer, nullptr);
      break;
    }
    case kPartitions: {
      std::int32_t cache_id = 0;
      std::memcpy(&cache_id, parts[1].data(), std::min<std::size_t>(4, parts[1].size()));
      const std::optional<PartitionMap> map = ParsePartitionMap(reader, cache_id);
      if (map && map->partitions > 0) {
        Reader key = Read(parts[0]);
        const std::optional<std::int32_t> hash = KeyHash(key);
        if (hash && PartitionOf(*hash, map->partitions) >= map->partitions) std::abort();
      }
      break;
    }
    default:
      std::abort();
  }
}

}  // namespace ignite_strategy
