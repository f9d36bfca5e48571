#include <algorithm>

#include "native/wire/environment.h"
#include "native/wire/error.h"
#include "native/wire/json.h"
#include "native/wire/partition.h"

namespace ignite_strategy {
namespace {

[[noreturn]] void Fail(const std::string& text, const std::string& name, const std::string& why) {
  throw Error(Code::kInvalidArgument,
              NameAndValue(name, text) + ": " + why + " (partitions are written as 3 or 0-7,9 or [0, 1, 2])");
}

std::string Trim(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::int32_t Partition(const std::string& digits, const std::string& text, const std::string& name) {
  const std::string trimmed = Trim(digits);
  if (trimmed.empty() || trimmed.size() > 5 || trimmed.find_first_not_of("0123456789") != std::string::npos) {
    Fail(text, name, "\"" + trimmed + "\" is not a partition number");
  }
  const std::int32_t partition = std::stoi(trimmed);
  if (partition > kMaxPartition)
    Fail(text, name, "partition numbers end at " + std::to_string(kMaxPartition));
  return partition;
}

// "7" or "0-5".
void AddRange(const std::string& part, const std::string& text, const std::string& name, Partitions* out) {
  const std::size_t dash = part.find('-');
  const std::int32_t first = Partition(part.substr(0, dash), text, name);
  const std::int32_t last = dash == std::string::npos ? first : Partition(part.substr(dash + 1), text, name);
  if (last < first) Fail(text, name, "the range " + Trim(part) + " runs backwards");
  for (std::int32_t partition = first; partition <= last; ++partition) out->push_back(partition);
}

void AddRanges(const std::string& ranges, const std::string& text, const std::string& name, Partitions* out) {
  std::size_t start = 0;
  while (true) {
    const std::size_t comma = ranges.find(',', start);
    AddRange(ranges.substr(start, comma - start), text, name, out);
    if (comma == std::string::npos) return;
    start = comma + 1;
  }
}

Partitions Sorted(Partitions partitions) {
  std::sort(partitions.begin(), partitions.end());
  partitions.erase(std::unique(partitions.begin(), partitions.end()), partitions.end());
  return partitions;
}

}  // namespace

Partitions ReadJsonPartitions(JsonReader* json, const std::string& name) {
  Partitions partitions;
  if (json->Peek() == '"') {
    const std::string text = json->String();
    AddRanges(text, text, name, &partitions);
    return Sorted(std::move(partitions));
  }
  json->Expect('[');
  if (json->Accept(']')) return partitions;
  do {
    if (json->Peek() == '"') {
      const std::string text = json->String();
      AddRanges(text, text, name, &partitions);
    } else {
      const std::int64_t partition = json->Integer();
      if (partition < 0 || partition > kMaxPartition) {
        json->Fail("partition " + std::to_string(partition) + " is not between 0 and " +
                   std::to_string(kMaxPartition));
      }
      partitions.push_back(static_cast<std::int32_t>(partition));
    }
  } while (json->Accept(','));
  json->Expect(']');
  return Sorted(std::move(partitions));
}

Partitions ParsePartitions(const std::string& text, const std::string& name) {
  const std::string trimmed = Trim(text);
  if (!trimmed.empty() && trimmed.front() == '[') {
    JsonReader json(trimmed, NameAndValue(name, text));
    Partitions partitions = ReadJsonPartitions(&json, name);
    json.End();
    return partitions;
  }
  Partitions partitions;
  AddRanges(trimmed, text, name, &partitions);
  return Sorted(std::move(partitions));
}

std::string FormatPartitions(const Partitions& partitions) {
  const Partitions sorted = Sorted(partitions);
  if (sorted.empty()) return "[]";
  std::string text;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(sorted[first]);
    if (last > first) text += "-" + std::to_string(sorted[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace ignite_strategy
