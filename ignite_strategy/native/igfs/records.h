// What the two caches of a file system hold: keys, records, and their bytes.
//
// Tree cache (transactional): EntryKey{parent, name} -> byte[] with one Record. The parent id is the affinity
// key, so that a directory's entries, its header and its bookkeeping share one partition: a listing scans
// that partition, and creating, replacing, removing and renaming within a directory is a transaction of one
// partition.
//
//   (0, "format")      Format    what the file system is, written once
//   (0, "moves")       Moves     written by every move of a directory to another parent: makes cycles
//   impossible (D, "")            Header    directory D exists; (1, "") is the root's (D, name)          File
//   or Directory (D, "\0t" + id)    Trash     blocks that nobody will open any more, kept for those who have
//   them open (D, "\0w" + id)    Writing   blocks of a file that is being written, for the case that its
//   writer dies (D, "\0x" + id)    Doomed    a directory that was removed with everything below it
//
// Block cache (atomic): UUID(content id, index) -> byte[]. A content id belongs to one writer; only that
// writer's last block changes, and only by growing. Hence published bytes never change.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_RECORDS_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native/wire/buffer.h"

namespace ignite_strategy {
namespace igfs {

using Id = std::int64_t;

constexpr Id kSystem = 0;
constexpr Id kRoot = 1;
constexpr std::uint32_t kFormatVersion = 1;

struct Key {
  Id parent = 0;
  std::string name;
  bool operator==(const Key& other) const { return parent == other.parent && name == other.name; }
  bool operator<(const Key& other) const {
    return parent != other.parent ? parent < other.parent : name < other.name;
  }
};

enum class Kind : std::uint8_t {
  kFormat = 1,
  kMoves = 2,
  kHeader = 3,
  kDirectory = 4,
  kFile = 5,
  kTrash = 6,
  kWriting = 7,
  kDoomed = 8,
};

// Consecutive bytes of a file, from the first block of one content. All extents but the last are whole
// blocks.
struct Extent {
  Id content = 0;
  std::uint64_t length = 0;
  bool operator==(const Extent& other) const { return content == other.content && length == other.length; }
};

// Blocks [first, end) of one content.
struct BlockRange {
  Id content = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

// One value of the tree cache. Which members count depends on `kind`.
struct Record {
  Kind kind = Kind::kFile;
  // kDirectory, kDoomed: the directory. kFile: the file; it stays the same while the file only grows.
  // kHeader: who wants to remove the directory, 0 = nobody. kMoves, kWriting: a counter. kFormat: the
  // version.
  Id id = 0;
  std::int64_t mtime = 0;          // kDirectory, kFile: nanoseconds since 1970
  std::uint32_t block_size = 0;    // kFile
  std::vector<Extent> extents;     // kFile
  std::vector<BlockRange> blocks;  // kTrash; kWriting: one

  std::uint64_t size() const;  // kFile
  bool IsDirectory() const { return kind == Kind::kDirectory; }
  bool IsFile() const { return kind == Kind::kFile; }
  bool operator==(const Record& other) const {
    return kind == other.kind && id == other.id && mtime == other.mtime && extents == other.extents;
  }
};

// The blocks that `extents` occupy.
std::vector<BlockRange> BlocksOf(const std::vector<Extent>& extents, std::uint32_t block_size);

// The blocks of `before` that `after` does not use.
std::vector<BlockRange> Unused(const Record& before, const Record& after);

// A random id, never one of the fixed ones. 63 bits.
Id NewId();
std::string HexId(Id id);  // 16 digits
std::int64_t NowNanos();   // wall clock

inline Key HeaderKey(Id directory) { return Key{directory, ""}; }
Key SpecialKey(Id directory, char mark, Id id);  // mark: 't', 'w' or 'x'
// Headers and bookkeeping, which no listing shows.
inline bool IsSpecial(std::string_view name) { return name.empty() || name.front() == '\0'; }

// The binary type of the keys. Every client writes the same bytes for the same key: Ignite compares keys by
// bytes.
constexpr char kKeyType[] = "ignite_strategy.igfs.EntryKey";
constexpr char kAffinityField[] = "parent";
void PutKey(Writer& writer, const Key& key);
// The payload that registers the type, with its affinity field, before the first key is written.
Writer KeyTypeMetadata();
// A key as a scan returns it. Throws Error(kDataLoss) if it is none of ours.
Key GetKey(Reader& reader);
// The partition of everything below `parent`.
std::int32_t PartitionOf(Id parent, std::int32_t partitions);

void PutRecord(Writer& writer, const Record& record);
// A typed value: nothing for null. Throws Error(kDataLoss) for anything that contradicts itself.
std::optional<Record> GetRecord(Reader& reader);

void PutBlockKey(Writer& writer, Id content, std::uint64_t index);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_RECORDS_H_
