#include "native/wire/frame.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ignite_strategy {

void Frame::Deleter::operator()(std::uint8_t* memory) const { std::free(memory); }

Frame& Frame::operator=(Frame&& other) noexcept {
  memory_ = std::move(other.memory_);
  shift_ = std::exchange(other.shift_, 0);
  size_ = std::exchange(other.size_, 0);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

void Frame::Resize(std::size_t size, std::size_t kept) {
  if (size > capacity_) {
    const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    std::unique_ptr<std::uint8_t, Deleter> fresh(
        static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, rounded + kAlignment)));
    if (!fresh) throw std::bad_alloc();
    if (kept > 0) std::memcpy(fresh.get() + shift_, data(), std::min(kept, size_));
    memory_ = std::move(fresh);
    capacity_ = rounded;
  }
  size_ = size;
}

}  // namespace ignite_strategy
