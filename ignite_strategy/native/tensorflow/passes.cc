#include "native/tensorflow/passes.h"

#include <unordered_map>
#include <utility>

namespace ignite_strategy {
namespace {

// A program that handles SIGINT itself and goes on must not lose its pass because a page took a moment.
constexpr Millis kInterruptGrace{200};

struct Table {
  std::mutex mutex;
  std::int64_t next = 1;
  std::unordered_map<std::int64_t, std::shared_ptr<Pass>> passes;
};

// Never destroyed: iterators may be dropped while the process exits.
Table& Passes() {
  static auto* table = new Table;
  return *table;
}

}  // namespace

Scan::State Pass::Prepare(Millis limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto patience = Clock::now() + kInterruptGrace;
  const std::function<void()> check = [&] {
    interrupted_ = interrupted_ || (watch_->interrupted() && Clock::now() > patience);
    if (interrupted_) {
      throw Error(Code::kCancelled,
                  "interrupted while waiting for rows of cache '" + scan_.config().cache + "'");
    }
  };
  // Once interrupted the pass stays so: map().batch() asks for all rows of a batch before it reports an
  // error.
  if (interrupted_) check();
  try {
    return scan_.Prepare(limit, check);
  } catch (const Error& error) {
    // TensorFlow makes an InternalError, the end of a training, of any kernel's UnavailableError. A pass that
    // broke on its way is the other code after which its sessions go back to the last checkpoint; one that
    // did not even begin would let them try for ever.
    if (error.code() != Code::kUnavailable || scan_.rows_delivered() == 0) throw;
    throw Error(Code::kAborted, error.message() + "; begin the pass again, from the last checkpoint",
                error.server_status());
  }
}

Batch Pass::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto fresh = std::make_unique<InterruptWatch>();
  watch_ = std::move(fresh);
  return scan_.Take(true);
}

Batch Pass::Nothing() const {
  const ScanConfig& config = scan_.config();
  Batch batch;
  batch.columns =
      BatchBuilder(config.columns, 0, 0, config.grouped ? static_cast<std::size_t>(config.batch_size) : 0)
          .Finish();
  return batch;
}

std::int64_t AddPass(std::shared_ptr<Pass> pass) {
  Table& table = Passes();
  const std::lock_guard<std::mutex> lock(table.mutex);
  const std::int64_t handle = table.next++;
  table.passes.emplace(handle, std::move(pass));
  return handle;
}

std::shared_ptr<Pass> FindPass(std::int64_t handle) {
  Table& table = Passes();
  const std::lock_guard<std::mutex> lock(table.mutex);
  const auto found = table.passes.find(handle);
  if (found == table.passes.end()) {
    throw Error(Code::kFailedPrecondition, "pass " + std::to_string(handle) + " is not open in this process");
  }
  return found->second;
}

void RemovePass(std::int64_t handle) {
  std::shared_ptr<Pass> pass;  // destroyed after the lock is released
  Table& table = Passes();
  const std::lock_guard<std::mutex> lock(table.mutex);
  const auto found = table.passes.find(handle);
  if (found == table.passes.end()) return;
  pass = std::move(found->second);
  table.passes.erase(found);
}

}  // namespace ignite_strategy
