#include "native/igfs/file_reader.h"

#include <algorithm>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

// Blocks asked for ahead of a reader that has proven sequential: half as many as it has read so, for
// TensorFlow reads a piece from the middle of a file in several calls.
constexpr std::uint64_t kMostAhead = 4;
// After so many blocks in order a thread goes on, if as many are left, and if reads are so small that whoever
// reads does something else for most of the time, as TensorFlow with its 512 KiB: within a large one nothing
// waits.
constexpr std::uint64_t kWorthAThread = 8, kSmallRead = 2;

}  // namespace

FileReader::FileReader(std::shared_ptr<Tree> tree, Place place, std::string what)
    : tree_(std::move(tree)),
      key_(std::move(place.key)),
      what_(std::move(what)),
      version_(std::make_shared<const Record>(std::move(*place.record))),
      blocks_(tree_->store()),
      blocks_version_(version_) {}

std::unique_ptr<FileReader> FileReader::Open(std::shared_ptr<Tree> tree, const Path& path, const Wait& wait) {
  Place place = tree->Resolve(path, wait);
  std::string what = tree->Describe(path);
  if (!place.record) throw Error(Code::kNotFound, what + ": no such file or directory");
  if (!place.record->IsFile()) throw Error(Code::kFailedPrecondition, what + " is a directory, not a file");
  return std::unique_ptr<FileReader>(new FileReader(std::move(tree), std::move(place), std::move(what)));
}

std::shared_ptr<const Record> FileReader::Version() const {
  const std::lock_guard<std::mutex> lock(version_mutex_);
  return version_;
}

std::uint64_t FileReader::size() const { return Version()->size(); }

// A replaced file has another id; one that has grown has the same, and the same bytes before its old end.
std::shared_ptr<const Record> FileReader::Newer(const Wait& wait) {
  std::optional<Record> now;
  try {
    now = std::move(tree_->store().Get({key_}, wait).front());
  } catch (const Error& error) {
    if (!Store::IsMissingCache(error)) throw;
  }
  const std::lock_guard<std::mutex> lock(version_mutex_);
  if (now && now->IsFile() && now->id == version_->id && now->size() > version_->size()) {
    version_ = std::make_shared<const Record>(std::move(*now));
  }
  return version_;
}

std::size_t FileReader::Read(std::uint64_t offset, std::size_t size, char* out, const Wait& wait) {
  std::shared_ptr<const Record> version = Version();
  if (offset > version->size() || size > version->size() - offset) version = Newer(wait);
  if (offset >= version->size()) return 0;
  const auto available = static_cast<std::size_t>(std::min<std::uint64_t>(size, version->size() - offset));
  try {
    const std::unique_lock<std::mutex> lock(sequential_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      BlockReader(tree_->store()).Read(*version, offset, available, out, 0, what_, wait);
      return available;
    }
    ReadInOrder(version, offset, available, out, wait);
  } catch (const Error& error) {
    if (error.code() == Code::kDataLoss && error.server_status() == 0) ExplainLoss(error, *version, wait);
    throw;
  }
  return available;
}

void FileReader::ReadInOrder(const std::shared_ptr<const Record>& version, std::uint64_t offset,
                             std::size_t size, char* out, const Wait& wait) {
  if (blocks_version_ != version) blocks_.Forget();
  blocks_version_ = version;
  if (offset != next_) begun_ = offset;
  if (ahead_ && (offset != next_ || ahead_->file() != version)) ahead_.reset();
  next_ = offset;  // until it is read
  const std::uint64_t block_size = version->block_size;
  const std::uint64_t end = offset + size, last = (end - 1) / block_size;
  if (!ahead_ && size <= kSmallRead * block_size && offset - begun_ >= kWorthAThread * block_size &&
      version->size() - offset >= kWorthAThread * block_size) {
    ahead_ = std::make_unique<ReadAhead>(tree_, version, blocks_.FirstNotAsked(offset / block_size), what_);
  }
  // What has been asked for already comes first.
  const std::uint64_t border = ahead_ ? std::max(offset, ahead_->first() * block_size) : end;
  if (border > offset) {
    // Who begins at the start mostly goes on.
    const std::uint64_t run = offset - begun_ + (begun_ == 0 ? 2 * block_size : 0);
    std::uint64_t ahead = ahead_ ? ahead_->first() - std::min(ahead_->first(), last + 1)
                                 : std::min(kMostAhead, run / block_size / 2);
    // One of several calls for a piece, as those of TensorFlow: the next one needs the rest of its blocks.
    if (run == 0 && size > block_size / 2 && size <= block_size) ahead = 1;
    const auto direct = static_cast<std::size_t>(std::min(border, end) - offset);
    blocks_.Read(*version, offset, direct, out, static_cast<std::size_t>(ahead), what_, wait);
  }
  if (border < end) {
    const auto before = static_cast<std::size_t>(border - offset);
    const std::size_t got = ahead_->Read(border, size - before, out + before, wait);
    if (got < size - before) {
      ahead_.reset();
      blocks_.Read(*version, border + got, size - before - got, out + before + got, 0, what_, wait);
    }
  }
  next_ = end;
}

void FileReader::ExplainLoss(const Error& error, const Record& version, const Wait& wait) {
  const auto now = std::move(tree_->store().Get({key_}, wait).front());
  if (now && now->IsFile() && now->id == version.id) throw error;
  throw Error(Code::kFailedPrecondition,
              what_ +
                  " was replaced or removed while it was open, longer ago than old content "
                  "is kept (IGFS_GRACE_SECONDS); open it again");
}

}  // namespace igfs
}  // namespace ignite_strategy
