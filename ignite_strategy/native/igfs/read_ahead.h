// Blocks of one file, fetched in order by a thread of its own, while their reader is busy with those it has.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_READ_AHEAD_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_READ_AHEAD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "native/igfs/blocks.h"
#include "native/igfs/records.h"
#include "native/igfs/tree.h"

namespace ignite_strategy {
namespace igfs {

// For one reader at a time. Holds a bounded number of blocks; a reader that pauses for long loses the thread
// and its connection, not the blocks.
class ReadAhead {
 public:
  // Fetches from block `first` on. `what` is the path.
  ReadAhead(std::shared_ptr<Tree> tree, std::shared_ptr<const Record> file, std::uint64_t first,
            const std::string& what);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  std::uint64_t first() const { return first_; }
  const std::shared_ptr<const Record>& file() const { return file_; }
  // Copies [offset, offset + size), which must follow what was read before, to `out`. Returns how many bytes
  // it could: fewer if the thread has ended, because of a failure or a pause. Throws what `wait` says, and
  // Error(kDataLoss) for a block that is not whole.
  std::size_t Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait);

 private:
  struct State;
  const std::shared_ptr<const Record> file_;
  const std::uint64_t first_;
  const std::string what_;
  const unsigned long generation_;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_READ_AHEAD_H_
