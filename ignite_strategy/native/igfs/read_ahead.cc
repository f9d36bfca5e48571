#include "native/igfs/read_ahead.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "native/wire/socket.h"

namespace ignite_strategy {
namespace igfs {
namespace {

// Blocks that are there or on their way: TensorFlow copies for as long as three take to arrive.
constexpr std::size_t kMostBlocks = 8;
// A reader that takes nothing for so long keeps no connection.
constexpr Millis kPause{5000};

}  // namespace

// The thread keeps it, and with it the tree, until it has noticed that its reader is gone.
struct ReadAhead::State {
  std::shared_ptr<Tree> tree;
  std::shared_ptr<const Record> file;
  std::string what;
  std::uint64_t last = 0;  // block of the file
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::uint64_t next = 0;  // the block that the reader is at
  std::map<std::uint64_t, Block> blocks;
  std::vector<Frame> frames;  // to be used again
  bool ended = false;

  void Fetch(std::uint64_t first);
  bool AwaitRoom(std::uint64_t block);
};

// Waits until the reader has come close enough to `block`; false if it does not come.
bool ReadAhead::State::AwaitRoom(std::uint64_t block) {
  std::unique_lock<std::mutex> lock(mutex);
  return changed.wait_for(lock, kPause, [&] {
    return block < next + kMostBlocks || cancellation->cancelled();
  }) && !cancellation->cancelled();
}

void ReadAhead::State::Fetch(std::uint64_t first) {
  const Wait wait{Clock::time_point::max(), cancellation, {}};
  Lease lease;
  std::map<std::int64_t, std::uint64_t> asked;
  const auto has_room = [this](std::uint64_t block) {
    const std::lock_guard<std::mutex> lock(mutex);
    return block < next + kMostBlocks;
  };
  for (std::uint64_t block = first; block <= last || !asked.empty();) {
    if (asked.empty() && !AwaitRoom(block)) return;
    if (!lease) lease = tree->store().Connect(wait);
    while (block <= last && asked.size() < kBlocksInFlight && has_room(block)) {
      asked[AskForBlock(tree->store(), *lease, *file, block, wait)] = block;
      ++block;
    }
    Response response = lease->Receive(wait);
    const auto found = asked.find(response.request_id);
    if (found == asked.end()) return lease.Discard();
    Block arrived = BlockOf(*lease, std::move(response), what);
    const std::lock_guard<std::mutex> lock(mutex);
    blocks[found->second] = std::move(arrived);
    asked.erase(found);
    if (!frames.empty()) {
      lease->Recycle(std::move(frames.back()));
      frames.pop_back();
    }
    changed.notify_all();
  }
}

ReadAhead::ReadAhead(std::shared_ptr<Tree> tree, std::shared_ptr<const Record> file, std::uint64_t first,
                     const std::string& what)
    : file_(std::move(file)),
      first_(first),
      what_(what),
      generation_(ForkGeneration()),
      state_(std::make_shared<State>()) {
  state_->tree = std::move(tree);
  state_->file = file_;
  state_->what = what;
  state_->last = (file_->size() - 1) / file_->block_size;
  state_->next = first;
  const auto run = [state = state_, first] {
    try {
      state->Fetch(first);
    } catch (const std::exception&) {
      // The reader asks for itself, and gets the error if it is still there.
    }
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->ended = true;
    state->changed.notify_all();
  };
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) {
    state_->ended = true;  // there are too many threads: the reader asks for itself
  }
}

ReadAhead::~ReadAhead() {
  if (generation_ != ForkGeneration()) {
    // The thread is the parent's, and may have held the lock when this process began.
    new std::shared_ptr<State>(std::move(state_));
    return;
  }
  state_->cancellation->Cancel();
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->changed.notify_all();
}

std::size_t ReadAhead::Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) {
  if (generation_ != ForkGeneration()) return 0;
  std::size_t done = 0;
  while (done < size) {
    const std::uint64_t at = offset + done, index = at / file_->block_size;
    const std::size_t piece = std::min<std::uint64_t>(size - done, (index + 1) * file_->block_size - at);
    const Block* block = nullptr;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      for (; state_->next < index; ++state_->next) {
        const auto passed = state_->blocks.find(state_->next);
        if (passed == state_->blocks.end()) continue;
        state_->frames.push_back(std::move(passed->second.frame));
        state_->blocks.erase(passed);
      }
      state_->changed.notify_all();
      while (state_->blocks.count(index) == 0) {
        if (state_->ended) return done;
        lock.unlock();
        const Millis slice = wait.NextSlice("reading a file");
        lock.lock();
        state_->changed.wait_for(lock, slice,
                                 [&] { return state_->ended || state_->blocks.count(index) > 0; });
      }
      block =
          &state_->blocks.find(index)->second;  // the thread only adds others, and those stay where they are
    }
    CopyBlock(*file_, index, *block, at, piece, out + done, what_);
    done += piece;
  }
  return done;
}

}  // namespace igfs
}  // namespace ignite_strategy
