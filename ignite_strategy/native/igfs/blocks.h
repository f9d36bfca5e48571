// Single blocks of a file: how one is asked for, taken from its answer, and copied.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_BLOCKS_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_BLOCKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/igfs/records.h"
#include "native/igfs/store.h"
#include "native/wire/connection.h"

namespace ignite_strategy {
namespace igfs {

// How many requests for blocks a reader has under way at the most.
constexpr std::size_t kBlocksInFlight = 4;

struct Block {
  Frame frame;
  std::size_t begin = 0;  // of the data within the frame
  std::size_t size = 0;   // 0 = there is no such block
};

// Sends the request for block `index` of `file`; returns its id.
std::int64_t AskForBlock(const Store& store, Connection& connection, const Record& file, std::uint64_t index,
                         const Wait& wait);
// The block in an answer. Throws what the server answered instead; `what` is the path.
Block BlockOf(const Connection& connection, Response&& response, const std::string& what);
// Copies what of block `index` lies within [offset, offset + size) of `file` to its place in `out`. Throws
// Error(kDataLoss) if the block is not whole.
void CopyBlock(const Record& file, std::uint64_t index, const Block& block, std::uint64_t offset,
               std::size_t size, char* out, const std::string& what);

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_BLOCKS_H_
