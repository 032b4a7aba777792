// Random operations on a volume as lines of text, what they do to a model, and how they are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/status.h"
#include "interop/file_view.h"
#include "volume/vfs/volume.h"

namespace paddleop::testing {

// Operations, one per line:
//   put NAME ID SIZE        writes a new file beside it and renames it over NAME
//   poke NAME OFFSET ID SIZE  overwrites in place
//   cut NAME LENGTH         truncates
//   move NAME NAME          renames over
//   link NAME NAME
//   remove NAME
//   hold NAME               opens and unlinks; the handle stays open
//   pack DIR ID COUNT       a directory of files that share one slice, committed in bulk
//   rmr DIR
inline constexpr std::size_t kPackedSize = 3000;  // of each file of a pack

// Names and contents; names of one file share it.
class Model {
 public:
  using Content = std::shared_ptr<std::string>;

  Model() = default;
  Model(const Model& other);  // files that share stay together
  Model(Model&&) = default;
  Model& operator=(Model&&) = default;
  ~Model() = default;

  void Apply(const std::string& line);
  // Empty if `found` has just these files, else the first difference.
  std::string Differs(const std::map<std::string, std::string>& found) const;
  bool Has(const std::string& name) const { return files_.contains(name); }
  bool HasDirectory(const std::string& name) const;
  std::size_t SizeOf(const std::string& name) const { return files_.at(name)->size(); }

 private:
  std::map<std::string, Content> files_;
};

// Makes up operations that work one after the other.
class Script {
 public:
  explicit Script(std::uint64_t seed) : random_(seed) {}

  std::vector<std::string> Make(Model model, int count);
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }

 private:
  // Empty if the one that came up does not fit.
  std::string Next(const Model& model);

  std::mt19937_64 random_;
  std::uint64_t id_ = 0;
};

// Does them.
class Player {
 public:
  Player(Context ctx, volume::Volume& volume);
  Result<void> Run(const std::string& line);

 private:
  Result<void> Hold(const std::string& name);
  Result<void> Pack(const std::string& name, std::uint64_t id, std::uint32_t count);

  const Context ctx_;
  volume::Volume& volume_;
  std::unique_ptr<FileView> view_;
};

// The files of a volume, without one called `new`, which an interrupted put leaves behind.
Result<std::map<std::string, std::string>> FilesOf(volume::Volume& volume);

// An operation was interrupted or failed, and nobody knows whether it was done: the volume must be
// as before or as after it. Then ends what it had begun, as a user would (`new` is of no use to
// anyone, a directory that was being removed goes, one that was being filled goes too), and takes
// what is found for the truth. An error says how the volume differs.
Result<void> SettleInterrupted(const Context& ctx, volume::Volume& volume, const std::string& line,
                               Model& model);

}  // namespace paddleop::testing
