#include "native/igfs/file_reader.h"

#include <algorithm>
#include <utility>

namespace ignite_strategy {
namespace igfs {
namespace {

// Blocks asked for ahead of a reader that has proven sequential: half as many as it has read so, for
// TensorFlow reads a piece from the middle of a file in several calls.
constexpr std::uint64_t kMostAhead = 4;

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
    if (blocks_version_ != version) blocks_.Forget();
    blocks_version_ = version;
    if (offset != next_) begun_ = offset;
    next_ = offset + available;
    // Who begins at the start mostly goes on.
    const std::uint64_t run = offset - begun_ + (begun_ == 0 ? 2 * std::uint64_t{version->block_size} : 0);
    const auto ahead = static_cast<std::size_t>(std::min(kMostAhead, run / version->block_size / 2));
    blocks_.Read(*version, offset, available, out, ahead, what_, wait);
  } catch (const Error& error) {
    if (error.code() == Code::kDataLoss && error.server_status() == 0) ExplainLoss(error, *version, wait);
    throw;
  }
  return available;
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
