#include "native/igfs/block_reader.h"

#include <algorithm>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr int kAttempts = 3;
constexpr std::uint64_t kDropped = ~std::uint64_t{0};  // the answer is of no use any more

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
  while (!blocks_.empty()) Drop(blocks_.begin());
  for (auto& [request, index] : asked_) index = kDropped;
}

void BlockReader::KeepOnly(std::uint64_t first, std::uint64_t last) {
  while (!blocks_.empty() && blocks_.begin()->first < first) Drop(blocks_.begin());
  while (!blocks_.empty() && blocks_.rbegin()->first > last) Drop(std::prev(blocks_.end()));
  for (auto& [request, index] : asked_) {
    if (index < first || index > last) index = kDropped;
  }
}

BlockReader::Blocks::iterator BlockReader::Drop(Blocks::iterator block) {
  KeepFrame(std::move(block->second.frame));
  return blocks_.erase(block);
}

void BlockReader::KeepFrame(Frame frame) {
  if (frames_.size() < kBlocksInFlight) frames_.push_back(std::move(frame));
}

void BlockReader::Exchange(const Range& range, std::uint64_t horizon, const Wait& wait) {
  wanted_.clear();
  missing_ = 0;
  for (std::uint64_t index = horizon + 1; index-- > range.first;) {
    const bool arrived = blocks_.count(index) > 0;
    if (index <= range.last && !arrived) ++missing_;
    if (!IsOnItsWay(index) && !arrived) wanted_.push_back(index);
  }
  for (auto block = blocks_.begin(); block != blocks_.end() && block->first <= range.last;) {
    Copy(range, block->first, block->second);
    const bool finished = (block->first + 1) * range.file.block_size <= range.offset + range.size;
    block = finished ? Drop(block) : std::next(block);
  }
  while (missing_ > 0) {
    Ask(range, wait);
    Take(range, wait);
  }
  Ask(range, wait);
}

bool BlockReader::IsOnItsWay(std::uint64_t index) const {
  return std::any_of(asked_.begin(), asked_.end(), [&](const auto& asked) { return asked.second == index; });
}

std::uint64_t BlockReader::FirstNotAsked(std::uint64_t index) const {
  while (IsOnItsWay(index) || blocks_.count(index) > 0) ++index;
  return index;
}

void BlockReader::Ask(const Range& range, const Wait& wait) {
  while (!wanted_.empty() && asked_.size() < kBlocksInFlight) {
    const std::uint64_t index = wanted_.back();
    if (!lease_) lease_ = store_.Connect(wait, fresh_);
    asked_[AskForBlock(store_, *lease_, range.file, index, wait)] = index;
    wanted_.pop_back();
  }
}

void BlockReader::Take(const Range& range, const Wait& wait) {
  if (!frames_.empty()) {  // else the kernel clears new memory for each block
    lease_->Recycle(std::move(frames_.back()));
    frames_.pop_back();
  }
  Response response = lease_->Receive(wait);
  const auto asked = asked_.find(response.request_id);
  if (asked == asked_.end()) throw Error(Code::kDataLoss, "an answer to a request that was not made");
  const std::uint64_t index = asked->second;
  asked_.erase(asked);
  if (index == kDropped) return KeepFrame(std::move(response.frame));
  Block block = BlockOf(*lease_, std::move(response), range.what);
  if (index > range.last) {
    blocks_[index] = std::move(block);
    return;
  }
  Copy(range, index, block);
  --missing_;
  const bool finished = (index + 1) * range.file.block_size <= range.offset + range.size;
  if (finished) {
    KeepFrame(std::move(block.frame));
  } else {
    blocks_[index] = std::move(block);  // a sequential reader continues in it
  }
}

void BlockReader::Copy(const Range& range, std::uint64_t index, const Block& block) const {
  CopyBlock(range.file, index, block, range.offset, range.size, range.out, range.what);
}

}  // namespace igfs
}  // namespace ignite_strategy
