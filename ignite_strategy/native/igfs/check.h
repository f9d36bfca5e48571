// Looks at everything in the two caches of a file system: what there is (df), and what should not be (fsck).
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_CHECK_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_CHECK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "native/igfs/records.h"
#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {

struct Usage {
  std::uint64_t files = 0, directories = 0;
  std::uint64_t bytes = 0;          // of the files
  std::uint64_t trash_blocks = 0;   // kept for those who may have replaced or removed files open
  std::uint64_t writers = 0;        // that have blocks in the cluster which are not published yet
  std::uint64_t stored_blocks = 0;  // in the block cache, each counted once
};

struct Finding {
  std::string path;    // where, as far as that is known
  std::string what;    // a sentence without its subject, which is the path
  std::string repair;  // what was done about it; empty = nothing
};

struct CheckOptions {
  bool repair = false;
  // Nobody else uses the file system: whoever writes is dead, and nobody reads what was replaced.
  bool offline = false;
  // Called with a step's name and how much of how much of it is done; 0 = not known.
  std::function<void(const char* step, std::uint64_t done, std::uint64_t all)> progress;
};

struct CheckReport {
  Usage usage;
  std::vector<Finding> findings;       // the first kMostFindings
  std::uint64_t found = 0;             // how many there are
  std::uint64_t collected_blocks = 0;  // of dead writers, of trash, and such as nothing refers to
};

constexpr std::size_t kMostFindings = 1000;

// One run. Holds the records of all files in memory, some 200 bytes each. Not thread-safe.
class Checker {
 public:
  Checker(Tree& tree, CheckOptions options) : tree_(tree), options_(std::move(options)) {}

  // Counts, without looking for faults. A file system that does not exist is empty.
  Usage Measure(const Wait& wait);
  CheckReport Run(const Wait& wait);

 private:
  void Read(const Wait& wait);
  void Count();
  void Walk(Id root, const std::string& path, bool removed);
  void WalkEverything();
  void CheckDirectories(const Wait& wait);
  void CheckUnreachable(const Wait& wait);
  void CheckFiles(const Wait& wait);
  void CheckFile(const Key& key, const Record& record, const Wait& wait);
  void CheckRemovals(const Wait& wait);
  void CollectSpecial(const Wait& wait);
  void CheckBlocks(const Wait& wait);
  std::uint64_t CountStored(const std::vector<BlockRange>& ranges, const Wait& wait);

  void Found(std::string path, std::string what, std::string repair = "");
  void Progress(const char* step, std::uint64_t done, std::uint64_t all) const;
  std::string PathOf(const Key& key) const;
  Id LostAndFound(const Wait& wait);
  void MoveToLostAndFound(const Key& key, const Record& record, const Record& kept, const std::string& name,
                          const Wait& wait);

  Tree& tree_;
  const CheckOptions options_;
  CheckReport report_;
  std::map<Key, Record> records_;
  std::map<Id, std::string> reached_;  // directories that have a name, and their paths
  std::set<Id> doomed_;                // directories below those that are being removed
  Id lost_and_found_ = 0;
  std::uint64_t referenced_ = 0;  // stored blocks that a record refers to
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_CHECK_H_
