// The directory tree of one file system: names, directories, and the publishing of files.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_TREE_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_TREE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/backend.h"
#include "native/igfs/collector.h"
#include "native/igfs/path.h"
#include "native/igfs/records.h"
#include "native/igfs/room.h"
#include "native/igfs/store.h"
#include "native/igfs/transaction.h"

namespace ignite_strategy {
namespace igfs {

// Where a path leads: the key of its entry, and the entry if there is one. The root has a record and no key.
struct Place {
  Key key;
  std::optional<Record> record;
};

// What has to be in a file's place for a new version of it to be published.
enum class Expect {
  kAnything,  // nothing or any file, which is replaced
  kSame,      // exactly what the writer saw
};

// Thread-safe. Errors name the path: kNotFound, kAlreadyExists, kFailedPrecondition (a directory where a file
// is needed or the reverse, not empty), kInvalidArgument, kAborted (another writer was faster), kUnavailable
// (no node answers; never kNotFound), kDataLoss.
class Tree {
 public:
  explicit Tree(Target target);
  // The tree of a target, one for the process.
  static std::shared_ptr<Tree> Mount(const Target& target);

  Place Resolve(const Path& path, const Wait& wait);
  Status GetStatus(const Path& path, const Wait& wait);
  // The names in a directory, sorted. Names that must not be are left out.
  std::vector<std::pair<std::string, Status>> List(const Path& path, const Wait& wait);

  void MakeDirectory(const Path& path, const Wait& wait);
  void MakeDirectories(const Path& path, const Wait& wait);
  void RemoveFile(const Path& path, const Wait& wait);
  void RemoveDirectory(const Path& path, const Wait& wait);
  // A file, or a directory with everything below it, which disappears in one step.
  void RemoveTree(const Path& path, const Wait& wait);
  // Replaces a file, or an empty directory by a directory. Atomic.
  void Rename(const Path& from, const Path& to, const Wait& wait);

  // Makes `record` the file at `key` in one step. `writing`: the writer's own bookkeeping record, if it has
  // one, which must still be there and is removed. `what`: the path, for errors.
  void Publish(const Key& key, const Record& record, Expect expect, const std::optional<Record>& seen,
               const std::optional<std::pair<Key, Record>>& writing, const std::string& what,
               const Wait& wait);
  // To be called before so many bytes are put into the cluster. Where memory is short, what was replaced and
  // removed is freed early. Throws Error(kResourceExhausted).
  void NeedRoom(std::uint64_t bytes, const std::string& what, const Wait& wait);
  // Blocks that were written and will not be published, unless they have been: a commit whose answer was not
  // awaited may have arrived.
  void Abandon(const Key& writing_key, const Record& writing, const Wait& wait) noexcept;

  // Keeps blocks for those who may have them open, in the transaction that takes them out of use; nothing if
  // there are none. Returns the record's key; `trash` gets the record.
  static Key PutTrash(Transaction& transaction, Id parent, std::vector<BlockRange> blocks, Record* trash);
  // Goes on with the removal of a directory that has no name any more. `key`: its kDoomed record.
  void RemoveDoomed(const Key& key, Id directory, const Wait& wait);
  // Looks for what can be collected in the whole tree, and collects what is due: a bounded number of blocks.
  void Tend(const Wait& wait);

  Store& store() { return store_; }
  std::string Describe(const Path& path) const {
    return "igfs://" + store_.target().ToString() + FormatPath(path);
  }

 private:
  std::vector<Key> Predict(const Path& path, std::size_t at, Id parent);
  void Remember(const Key& key, Id directory);
  Place Walk(const Path& path, std::vector<Place>* passed, const Wait& wait);

  Error NotFound(const Path& path) const;
  Error NotADirectory(const Path& path) const;
  // The directory's header, read in `transaction`: it has to exist, and a removal in progress is called off.
  void NeedDirectory(Transaction& transaction, Id directory, const std::optional<Record>& header,
                     const std::string& what);

  // Removing a directory: mark it, look that it is empty, remove it if the mark is still there. Whoever
  // creates something in it meanwhile takes the mark away.
  Id Mark(Id directory, const std::string& what, const Wait& wait);
  void Unmark(Id directory, Id token, const Wait& wait) noexcept;
  bool IsEmpty(Id directory, const Wait& wait);
  bool RemoveEmpty(const Key& entry, Id directory, const std::string& what, const Wait& wait);
  void RemoveContent(Id directory, const Wait& wait);
  void RemoveFiles(const std::vector<Key>& keys, const Wait& wait);

  bool TryRename(const Path& from, const Path& to, std::optional<Record>* moved, bool last, const Wait& wait);
  std::vector<Place> WayTo(const Path& to, Id moved, const Path& from, const Wait& wait);

  Store store_;
  Collector collector_;
  Room room_;
  std::mutex hints_mutex_;
  std::map<Key, Id> hints_;  // directories seen; only used to ask for several levels at once, always verified
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_TREE_H_
