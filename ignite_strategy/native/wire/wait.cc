#include "native/wire/wait.h"

#include <algorithm>
#include <string>
#include <thread>

#include "native/wire/error.h"

namespace ignite_strategy {

Millis Wait::NextSlice(const char* doing) const {
  if (check) check();
  if (cancellation && cancellation->cancelled()) {
    throw Error(Code::kCancelled, std::string("cancelled while ") + doing);
  }
  const auto now = Clock::now();
  if (now >= deadline) throw Error(Code::kDeadlineExceeded, std::string("no answer in time while ") + doing);
  // Rounded up: a slice of zero would spin through the last millisecond.
  const auto left = std::chrono::ceil<Millis>(std::min<Clock::duration>(deadline - now, kWaitSlice));
  return std::min(left, kWaitSlice);
}

void Wait::Sleep(Millis pause, const char* doing) const {
  const Clock::time_point end = Clock::now() + pause;
  while (Clock::now() < end) {
    const Millis slice = NextSlice(doing);
    std::this_thread::sleep_for(std::min<Clock::duration>(slice, end - Clock::now()));
  }
}

}  // namespace ignite_strategy
