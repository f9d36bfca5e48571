// Reads ranges of one file's blocks, several requests in flight, with blocks asked for ahead of need.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_BLOCK_READER_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_BLOCK_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "native/igfs/blocks.h"
#include "native/igfs/records.h"
#include "native/igfs/store.h"

namespace ignite_strategy {
namespace igfs {

// Not thread-safe. Holds a connection only while answers are outstanding, and a bounded number of blocks.
class BlockReader {
 public:
  explicit BlockReader(Store& store) : store_(store) {}

  // Copies [offset, offset + size) of `file`, which must have these bytes, to `out`; afterwards up to `ahead`
  // blocks behind them are on their way. Throws Error(kDataLoss) for a block that is not there; `what` is the
  // path.
  void Read(const Record& file, std::uint64_t offset, std::size_t size, char* out, std::size_t ahead,
            const std::string& what, const Wait& wait);
  // Forgets blocks that were read or asked for ahead: the file has grown.
  void Forget();
  // The first block, from `index` on, that has neither arrived nor been asked for.
  std::uint64_t FirstNotAsked(std::uint64_t index) const;

 private:
  // What the running call wants.
  struct Range {
    const Record& file;
    std::uint64_t offset;
    std::size_t size;
    char* out;
    const std::string& what;
    std::uint64_t first, last;  // blocks
  };

  using Blocks = std::map<std::uint64_t, Block>;

  Blocks::iterator Drop(Blocks::iterator block);
  void KeepFrame(Frame frame);
  void Exchange(const Range& range, std::uint64_t horizon, const Wait& wait);
  void Ask(const Range& range, const Wait& wait);
  void Take(const Range& range, const Wait& wait);
  void Copy(const Range& range, std::uint64_t index, const Block& block) const;
  bool IsOnItsWay(std::uint64_t index) const;
  void KeepOnly(std::uint64_t first, std::uint64_t last);

  Store& store_;
  Lease lease_;
  bool fresh_ = false;                           // the last connection broke: take none that was idle
  std::map<std::int64_t, std::uint64_t> asked_;  // request -> block
  Blocks blocks_;                                // arrived, to be used by a later call
  std::vector<Frame> frames_;                    // to be used again
  std::vector<std::uint64_t> wanted_;            // of the running call, in reverse order: not yet asked for
  std::size_t missing_ = 0;                      // of the running call: not yet copied
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_BLOCK_READER_H_
