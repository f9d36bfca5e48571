#include "native/igfs/block_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::int16_t kGet = 1000;
constexpr std::uint8_t kByteArray = 12, kNull = 101;
constexpr std::size_t kInFlight = 4;
constexpr int kAttempts = 3;
constexpr std::uint64_t kDropped = ~std::uint64_t{0};  // the answer is of no use any more

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

void BlockReader::Read(const Record& file, std::uint64_t offset, std::size_t size, char* out,
                       std::size_t ahead, const std::string& what, const Wait& wait) {
  if (size == 0) return;
  const Range range{
      file, offset, size, out, what, offset / file.block_size, (offset + size - 1) / file.block_size};
  const std::uint64_t last_of_file = (file.size() - 1) / file.block_size;
  const std::uint64_t horizon = std::min(last_of_file, range.last + ahead);
  KeepOnly(range.first, horizon);
  for (int attempt = 1;; ++attempt) {
    try {
      Exchange(range, horizon, wait);
      fresh_ = false;
      break;
    } catch (const Error& error) {
      lease_.Discard();
      asked_.clear();
      fresh_ = true;
      if (!Store::IsBroken(error) || attempt >= kAttempts) throw;
    }
  }
  if (asked_.empty()) lease_ = Lease();  // others may use the connection meanwhile
}

void BlockReader::Forget() {
  blocks_.clear();
  for (auto& [request, index] : asked_) index = kDropped;
}

void BlockReader::KeepOnly(std::uint64_t first, std::uint64_t last) {
  blocks_.erase(blocks_.begin(), blocks_.lower_bound(first));
  blocks_.erase(blocks_.upper_bound(last), blocks_.end());
  for (auto& [request, index] : asked_) {
    if (index < first || index > last) index = kDropped;
  }
}

void BlockReader::Exchange(const Range& range, std::uint64_t horizon, const Wait& wait) {
  wanted_.clear();
  missing_ = 0;
  for (std::uint64_t index = horizon + 1; index-- > range.first;) {
    const bool on_its_way =
        std::any_of(asked_.begin(), asked_.end(), [&](const auto& asked) { return asked.second == index; });
    const bool arrived = blocks_.count(index) > 0;
    if (index <= range.last && !arrived) ++missing_;
    if (!on_its_way && !arrived) wanted_.push_back(index);
  }
  for (auto block = blocks_.begin(); block != blocks_.end() && block->first <= range.last;) {
    Copy(range, block->first, block->second);
    const bool finished = (block->first + 1) * range.file.block_size <= range.offset + range.size;
    block = finished ? blocks_.erase(block) : std::next(block);
  }
  while (missing_ > 0) {
    Ask(range, wait);
    Take(range, wait);
  }
  Ask(range, wait);
}

void BlockReader::Ask(const Range& range, const Wait& wait) {
  while (!wanted_.empty() && asked_.size() < kInFlight) {
    const std::uint64_t index = wanted_.back();
    if (!lease_) lease_ = store_.Connect(wait, fresh_);
    const Position position = Locate(range.file, index);
    Writer request;
    store_.PutBlocksPrefix(request);
    PutBlockKey(request, position.content, position.index);
    asked_[lease_->Send(kGet, request, wait)] = index;
    wanted_.pop_back();
  }
}

void BlockReader::Take(const Range& range, const Wait& wait) {
  Response response = lease_->Receive(wait);
  const auto asked = asked_.find(response.request_id);
  if (asked == asked_.end()) throw Error(Code::kDataLoss, "an answer to a request that was not made");
  const std::uint64_t index = asked->second;
  asked_.erase(asked);
  if (index == kDropped) return lease_->Recycle(std::move(response.frame));
  if (response.status != 0) throw lease_->ServerError(response, "reading " + range.what);
  Reader payload = response.payload();
  Block block;
  if (payload.Get<std::uint8_t>() == kByteArray) {
    block.size = payload.Count(1);
    block.begin = response.payload_offset + payload.offset();
    payload.Skip(block.size);
  }
  block.frame = std::move(response.frame);
  if (index > range.last) {
    blocks_[index] = std::move(block);
    return;
  }
  Copy(range, index, block);
  --missing_;
  const bool finished = (index + 1) * range.file.block_size <= range.offset + range.size;
  if (finished) {
    lease_->Recycle(std::move(block.frame));
  } else {
    blocks_[index] = std::move(block);  // a sequential reader continues in it
  }
}

void BlockReader::Copy(const Range& range, std::uint64_t index, const Block& block) {
  const std::uint64_t needed = Locate(range.file, index).size;
  if (block.size < needed) {
    throw Error(Code::kDataLoss, range.what + ": block " + std::to_string(index) + " of " +
                                     std::to_string(range.file.block_size) + " bytes " +
                                     (block.size == 0 ? "is missing" : "is too short"));
  }
  const std::uint64_t start = index * range.file.block_size;
  const std::uint64_t from = std::max(start, range.offset);
  const std::uint64_t to = std::min(start + needed, range.offset + range.size);
  std::memcpy(range.out + (from - range.offset), block.frame.data() + block.begin + (from - start),
              to - from);
}

}  // namespace igfs
}  // namespace ignite_strategy
