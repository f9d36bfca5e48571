#include "native/igfs/blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::int16_t kGet = 1000;
constexpr std::uint8_t kByteArray = 12;

// Where block `index` of a file is kept, and how many bytes of it belong to the file.
struct Position {
  Id content;
  std::uint64_t index;
  std::uint64_t size;
};

Position Locate(const Record& file, std::uint64_t index) {
  std::uint64_t begin = index * file.block_size;
  for (const Extent& extent : file.extents) {
    if (begin < extent.length) {
      return {extent.content, begin / file.block_size,
              std::min<std::uint64_t>(file.block_size, extent.length - begin)};
    }
    begin -= extent.length;
  }
  throw Error(Code::kInternal, "a block behind the end of a file was asked for");
}

}  // namespace

std::int64_t AskForBlock(const Store& store, Connection& connection, const Record& file, std::uint64_t index,
                         const Wait& wait) {
  const Position position = Locate(file, index);
  Writer request;
  store.PutBlocksPrefix(request);
  PutBlockKey(request, position.content, position.index);
  return connection.Send(kGet, request, wait);
}

Block BlockOf(const Connection& connection, Response&& response, const std::string& what) {
  if (response.status != 0) throw connection.ServerError(response, "reading " + what);
  Reader payload = response.payload();
  Block block;
  if (payload.Get<std::uint8_t>() == kByteArray) {
    block.size = payload.Count(1);
    block.begin = response.payload_offset + payload.offset();
    payload.Skip(block.size);
  }
  block.frame = std::move(response.frame);
  return block;
}

void CopyBlock(const Record& file, std::uint64_t index, const Block& block, std::uint64_t offset,
               std::size_t size, char* out, const std::string& what) {
  const std::uint64_t needed = Locate(file, index).size;
  if (block.size < needed) {
    throw Error(Code::kDataLoss, what + ": block " + std::to_string(index) + " of " +
                                     std::to_string(file.block_size) + " bytes " +
                                     (block.size == 0 ? "is missing" : "is too short"));
  }
  const std::uint64_t start = index * file.block_size;
  const std::uint64_t from = std::max(start, offset);
  const std::uint64_t to = std::min(start + needed, offset + size);
  std::memcpy(out + (from - offset), block.frame.data() + block.begin + (from - start), to - from);
}

}  // namespace igfs
}  // namespace ignite_strategy
