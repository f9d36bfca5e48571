// Limits on waiting: every blocking step of the native code takes a Wait and gives up when it says so.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_WAIT_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_WAIT_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace ignite_strategy {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

// Set once by whoever no longer wants the result; blocking steps notice it within kWaitSlice.
class Cancellation {
 public:
  void Cancel() noexcept { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

// How long one uninterrupted poll of the operating system lasts at the most.
constexpr Millis kWaitSlice{50};

// A deadline, an optional cancellation and an optional check (Ctrl-C) that may throw. Cheap to copy.
struct Wait {
  Clock::time_point deadline = Clock::time_point::max();
  std::shared_ptr<const Cancellation> cancellation;  // may be null
  std::function<void()> check;                       // may be empty; called once per slice

  static Wait For(Millis limit) { return Wait{Clock::now() + limit, nullptr, {}}; }
  // The same cancellation and check, with a deadline at most `limit` from now.
  Wait Within(Millis limit) const {
    Wait shorter = *this;
    shorter.deadline = std::min(deadline, Clock::now() + limit);
    return shorter;
  }
  // Throws Error(kCancelled) when cancelled, Error(kDeadlineExceeded, "no answer ... while <doing>") when
  // late; else returns how long the next slice may be.
  Millis NextSlice(const char* doing) const;
  // Waits; throws what NextSlice() throws.
  void Sleep(Millis pause, const char* doing) const;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_WAIT_H_
