#include "native/igfs/records.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "native/wire/crypto.h"

namespace ignite_strategy {
namespace igfs {
namespace {

// Type codes and flags of binary objects.
constexpr std::uint8_t kLong = 4, kString = 9, kUuid = 10, kByteArray = 12, kWrapped = 27, kObject = 103,
                       kNull = 101;
constexpr std::uint16_t kUserType = 0x01, kHasSchema = 0x02, kOffsetOneByte = 0x08, kCompactFooter = 0x20;
constexpr std::size_t kObjectHeader = 24;
constexpr std::size_t kNameOffset = kObjectHeader + 1 + sizeof(Id);

constexpr std::uint8_t kRecordVersion = 1;
// More than any file has: the largest file of the smallest blocks that this number allows is beyond an
// exabyte.
constexpr std::uint64_t kMaxFileSize = std::uint64_t{1} << 60;

std::int32_t FieldId(std::string_view name) { return JavaLowerHash(name); }

std::int32_t SchemaId() {
  std::uint32_t hash = 0x811C9DC5;
  for (const std::int32_t id : {FieldId(kAffinityField), FieldId("name")}) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xFF)) * 0x01000193;
    }
  }
  return static_cast<std::int32_t>(hash);
}

[[noreturn]] void Malformed(const std::string& what) {
  throw Error(Code::kDataLoss,
              "an igfs cache holds " + what + ": written by something else, or by a newer version");
}

void PutBlocks(Writer& writer, const std::vector<BlockRange>& blocks) {
  writer.Put<std::int32_t>(static_cast<std::int32_t>(blocks.size()));
  for (const BlockRange& range : blocks) writer.Put(range.content).Put(range.first).Put(range.end);
}

std::vector<BlockRange> GetBlocks(Reader& reader) {
  std::vector<BlockRange> blocks(reader.Count(24));
  for (BlockRange& range : blocks) {
    range.content = reader.Get<Id>();
    range.first = reader.Get<std::uint64_t>();
    range.end = reader.Get<std::uint64_t>();
    if (range.first > range.end || range.end > kMaxFileSize) Malformed("an impossible range of blocks");
  }
  return blocks;
}

void GetExtents(Reader& reader, Record* record) {
  record->block_size = reader.Get<std::uint32_t>();
  record->extents.resize(reader.Count(16));
  if (record->block_size == 0) Malformed("a file with blocks of no bytes");
  std::uint64_t size = 0;
  for (Extent& extent : record->extents) {
    if (size % record->block_size != 0) Malformed("a file with a hole");
    extent.content = reader.Get<Id>();
    extent.length = reader.Get<std::uint64_t>();
    if (extent.length == 0 || extent.length > kMaxFileSize - size) Malformed("a file of an impossible size");
    size += extent.length;
  }
}

}  // namespace

std::uint64_t Record::size() const {
  std::uint64_t size = 0;
  for (const Extent& extent : extents) size += extent.length;
  return size;
}

std::vector<BlockRange> BlocksOf(const std::vector<Extent>& extents, std::uint32_t block_size) {
  std::vector<BlockRange> blocks;
  for (const Extent& extent : extents) {
    blocks.push_back({extent.content, 0, (extent.length + block_size - 1) / block_size});
  }
  return blocks;
}

std::vector<BlockRange> Unused(const Record& before, const Record& after) {
  std::vector<BlockRange> unused;
  const std::vector<BlockRange> kept = BlocksOf(after.extents, after.block_size);
  for (BlockRange range : BlocksOf(before.extents, before.block_size)) {
    const auto same = std::find_if(kept.begin(), kept.end(),
                                   [&](const BlockRange& k) { return k.content == range.content; });
    if (same != kept.end()) range.first = std::min(range.end, same->end);
    if (range.first < range.end) unused.push_back(range);
  }
  return unused;
}

Id NewId() {
  std::uint64_t value = 0;
  while (value < 1024) {  // the small ones are reserved
    RandomBytes(&value, sizeof value);
    value &= ~(std::uint64_t{1} << 63);
  }
  return static_cast<Id>(value);
}

std::int64_t NowNanos() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string HexId(Id id) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
  return text;
}

Key SpecialKey(Id directory, char mark, Id id) {
  return Key{directory, std::string(1, '\0') + mark + HexId(id)};
}

void PutKey(Writer& writer, const Key& key) {
  static const std::int32_t type_id = JavaLowerHash(kKeyType), schema_id = SchemaId();
  Writer fields;
  fields.Put(kLong).Put(key.parent).PutTypedString(key.name);
  std::uint32_t hash = 1;
  for (const std::uint8_t byte : fields.bytes()) {
    hash = 31 * hash + static_cast<std::uint32_t>(static_cast<std::int8_t>(byte));
  }
  const auto footer = static_cast<std::int32_t>(kObjectHeader + fields.size());
  writer.Put(kObject).Put<std::uint8_t>(1).Put<std::uint16_t>(kUserType | kHasSchema | kOffsetOneByte |
                                                              kCompactFooter);
  writer.Put(type_id)
      .Put(static_cast<std::int32_t>(hash))
      .Put<std::int32_t>(footer + 2)
      .Put(schema_id)
      .Put(footer);
  writer.PutBytes(fields.bytes().data(), fields.size());
  writer.Put<std::uint8_t>(kObjectHeader).Put<std::uint8_t>(kNameOffset);
}

Writer KeyTypeMetadata() {
  Writer writer;
  writer.Put(JavaLowerHash(kKeyType)).PutTypedString(kKeyType).PutTypedString(kAffinityField);
  writer.Put<std::int32_t>(2);
  writer.PutTypedString(kAffinityField).Put<std::int32_t>(kLong).Put(FieldId(kAffinityField));
  writer.PutTypedString("name").Put<std::int32_t>(kString).Put(FieldId("name"));
  writer.PutBool(false).Put<std::int32_t>(1).Put(SchemaId());
  writer.Put<std::int32_t>(2).Put(FieldId(kAffinityField)).Put(FieldId("name"));
  return writer;
}

Key GetKey(Reader& reader) {
  auto code = reader.Get<std::uint8_t>();
  std::size_t tail = 0;
  if (code == kWrapped) {
    const std::size_t size = reader.Count(1);
    if (size > reader.left() || reader.left() - size < sizeof(std::int32_t)) Malformed("a truncated key");
    Reader offset(reader.at() + size, sizeof(std::int32_t));
    if (offset.Get<std::int32_t>() != 0) Malformed("a key inside another object");
    tail = sizeof(std::int32_t);
    code = reader.Get<std::uint8_t>();
  }
  if (code != kObject) Malformed("a key of type code " + std::to_string(code));
  const std::size_t start = reader.offset() - 1;
  reader.Skip(3);
  if (reader.Get<std::int32_t>() != JavaLowerHash(kKeyType)) Malformed("a key of another type");
  reader.Skip(4);
  const auto length = reader.Get<std::int32_t>();
  if (reader.Get<std::int32_t>() != SchemaId()) Malformed("a key with other fields");
  reader.Skip(4);
  Key key;
  if (reader.Get<std::uint8_t>() != kLong) Malformed("a key whose parent is no number");
  key.parent = reader.Get<Id>();
  auto name = reader.TypedString();
  if (!name) Malformed("a key without a name");
  key.name = std::move(*name);
  reader.Skip(2);
  if (length < 0 || reader.offset() - start != static_cast<std::size_t>(length))
    Malformed("a key of another length");
  reader.Skip(tail);
  return key;
}

std::int32_t PartitionOf(Id parent, std::int32_t partitions) {
  const auto bits = static_cast<std::uint64_t>(parent);
  const auto hash = static_cast<std::uint32_t>(bits ^ (bits >> 32));
  if ((partitions & (partitions - 1)) == 0) {
    return static_cast<std::int32_t>((hash ^ (hash >> 16)) & static_cast<std::uint32_t>(partitions - 1));
  }
  const std::int64_t remainder = static_cast<std::int32_t>(hash) % partitions;
  return static_cast<std::int32_t>(remainder < 0 ? -remainder : remainder);
}

void PutRecord(Writer& writer, const Record& record) {
  Writer body;
  body.Put(kRecordVersion).Put(static_cast<std::uint8_t>(record.kind)).Put(record.id).Put(record.mtime);
  if (record.kind == Kind::kFile) {
    body.Put(record.block_size).Put<std::int32_t>(static_cast<std::int32_t>(record.extents.size()));
    for (const Extent& extent : record.extents) body.Put(extent.content).Put(extent.length);
  }
  if (record.kind == Kind::kTrash || record.kind == Kind::kWriting) PutBlocks(body, record.blocks);
  writer.Put(kByteArray).Put<std::int32_t>(static_cast<std::int32_t>(body.size()));
  writer.PutBytes(body.bytes().data(), body.size());
}

std::optional<Record> GetRecord(Reader& reader) {
  const auto code = reader.Get<std::uint8_t>();
  if (code == kNull) return std::nullopt;
  if (code != kByteArray) Malformed("a value of type code " + std::to_string(code));
  const std::size_t size = reader.Count(1);
  Reader body(reader.Bytes(size), size);
  if (const auto version = body.Get<std::uint8_t>(); version != kRecordVersion) {
    Malformed("a record of version " + std::to_string(version));
  }
  Record record;
  const auto kind = body.Get<std::uint8_t>();
  if (kind < static_cast<std::uint8_t>(Kind::kFormat) || kind > static_cast<std::uint8_t>(Kind::kDoomed)) {
    Malformed("a record of kind " + std::to_string(kind));
  }
  record.kind = static_cast<Kind>(kind);
  record.id = body.Get<Id>();
  record.mtime = body.Get<std::int64_t>();
  if (record.kind == Kind::kFile) GetExtents(body, &record);
  if (record.kind == Kind::kTrash || record.kind == Kind::kWriting) record.blocks = GetBlocks(body);
  if (body.left() != 0) Malformed("a record with more bytes than it needs");
  return record;
}

void PutBlockKey(Writer& writer, Id content, std::uint64_t index) {
  writer.Put(kUuid).Put(content).Put(index);
}

}  // namespace igfs
}  // namespace ignite_strategy
