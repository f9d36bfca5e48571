// The passes that TensorFlow's iterators hold by number.
#ifndef IGNITE_STRATEGY_NATIVE_TENSORFLOW_PASSES_H_
#define IGNITE_STRATEGY_NATIVE_TENSORFLOW_PASSES_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "native/scan/scan.h"
#include "native/wire/interrupt.h"

namespace ignite_strategy {

// One pass in use by one iterator.
class Pass {
 public:
  explicit Pass(ScanConfig config) : scan_(std::move(config)), watch_(std::make_unique<InterruptWatch>()) {}

  // Waits up to `limit`. A Ctrl-C that arrives while nothing does ends the wait with Error(kCancelled):
  // Python cannot act on it before the kernel returns.
  Scan::State Prepare(Millis limit);
  Batch Take();
  // A batch of no rows, in the place of one that is not there yet.
  Batch Nothing() const;

 private:
  std::mutex mutex_;
  Scan scan_;
  // Since the last batch: a signal before that was Python's to handle.
  std::unique_ptr<InterruptWatch> watch_;
  bool interrupted_ = false;
};

std::int64_t AddPass(std::shared_ptr<Pass> pass);
// Throws Error(kFailedPrecondition) for a number that is not open in this process.
std::shared_ptr<Pass> FindPass(std::int64_t handle);
void RemovePass(std::int64_t handle);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_TENSORFLOW_PASSES_H_
