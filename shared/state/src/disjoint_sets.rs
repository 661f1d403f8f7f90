//! Sets of records that are pairwise equal or disjoint.
//!
//! A mean over one hundred records reveals little about each of them. Two means over sets that
//! differ in one record reveal all of it. A party that answers with means therefore remembers their
//! sets.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use rand::Rng;
use sha2::{Digest, Sha256};
use vfl_core::types::RecordIds;

use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

const NAME: &str = "audited.sets";
const FIX: &str = "it says which sets of records were summarised: restore it from a backup";
const NOT_SETS: &str = "it is cut off, or no file of sets";
const MAGIC: &[u8; 16] = b"cloison sets 1\n\0";

/// A record, hashed with the file's salt: 128 bits.
type RecordHash = [u8; 16];
/// The members of a new set, and the content of the file that includes it.
type ProposedSet = (Vec<RecordHash>, Vec<u8>);

/// The sets admitted so far, stored in a file, or by several processes together.
///
/// The file holds salted hashes. They hide the ids from a reader who does not know them, not from
/// one who can guess them.
#[derive(Debug)]
pub struct DisjointSets {
    file: StateFile,
    /// The revision of the content that was read or written last.
    seen: Option<Revision>,
    salt: [u8; 16],
    sets: Vec<Vec<RecordHash>>,
    set_of: HashMap<RecordHash, usize, RandomState>,
}

impl DisjointSets {
    /// Reads the file of a state directory. If there is none, no set was admitted yet, and no file
    /// is created.
    ///
    /// # Errors
    /// [`StateFileError`] naming the file that cannot be read or is damaged.
    pub fn open(state_dir: impl Into<StateDir>) -> Result<Self, StateFileError> {
        let mut all = Self::empty(state_dir.into().file(NAME, FIX));
        all.follow()?;
        Ok(all)
    }

    fn empty(file: StateFile) -> Self {
        let mut salt = [0; 16];
        rand::rng().fill_bytes(&mut salt);
        Self { file, seen: None, salt, sets: Vec::new(), set_of: HashMap::default() }
    }

    /// Reads the sets that another process has admitted since.
    fn follow(&mut self) -> Result<(), StateFileError> {
        let Some((revision, content)) = self.file.read_newer(self.seen)? else { return Ok(()) };
        let mut newer = Self::empty(self.file.clone());
        if let Some(content) = content {
            newer.read(&content).ok_or_else(|| newer.file.damaged(NOT_SETS))?;
        }
        newer.seen = Some(revision);
        *self = newer;
        Ok(())
    }

    fn read(&mut self, content: &[u8]) -> Option<()> {
        let (salt, mut rest) = content.strip_prefix(MAGIC)?.split_first_chunk::<16>()?;
        self.salt = *salt;
        while !rest.is_empty() {
            let (count, after) = rest.split_first_chunk::<8>()?;
            let bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(16)?;
            let (members, after) = after.split_at_checked(bytes)?;
            self.add(members.as_chunks::<16>().0.to_vec());
            rest = after;
        }
        Some(())
    }

    /// Admits a set that equals an admitted one or is disjoint from all of them; it is on disk when
    /// this returns. For a set that overlaps others, returns the number of its records that they
    /// hold.
    ///
    /// # Errors
    /// [`StateFileError`] if the file cannot be written; the set is not admitted then.
    pub fn admit(&mut self, ids: &RecordIds) -> Result<Result<(), usize>, StateFileError> {
        loop {
            self.follow()?;
            match self.propose(ids) {
                Err(known) => return Ok(Err(known)),
                Ok(None) => return Ok(Ok(())),
                Ok(Some((members, content))) => {
                    // If another process admits a set meanwhile, the next iteration reads it.
                    if let Some(revision) =
                        self.file.swap(self.seen.unwrap_or_default(), &content)?
                    {
                        self.seen = Some(revision);
                        self.add(members);
                        return Ok(Ok(()));
                    }
                }
            }
        }
    }

    /// Runs [`DisjointSets::admit`] for sets that are stored elsewhere than in a file: takes the
    /// old content (`None`: none yet) and returns the new content, or `None` if it does not change.
    ///
    /// # Errors
    /// [`StateFileError::Damaged`] if the content is not a list of sets.
    pub fn admit_to(
        content: Option<&[u8]>,
        ids: &RecordIds,
    ) -> Result<Result<Option<Vec<u8>>, usize>, StateFileError> {
        let mut all = Self::empty(StateFile::new(NAME, FIX));
        if let Some(content) = content {
            all.read(content).ok_or_else(|| all.file.damaged(NOT_SETS))?;
        }
        Ok(all.propose(ids).map(|new| new.map(|(_, content)| content)))
    }

    /// Returns the members of a new set and the content with it; `None` for a set that was admitted
    /// before.
    fn propose(&self, ids: &RecordIds) -> Result<Option<ProposedSet>, usize> {
        let mut members: Vec<RecordHash> = ids.iter().map(|id| self.member(id)).collect();
        members.sort_unstable();
        let known = members.iter().filter(|m| self.set_of.contains_key(*m)).count();
        if known > 0 {
            return if self.sets.contains(&members) { Ok(None) } else { Err(known) };
        }
        let mut content = [&MAGIC[..], &self.salt].concat();
        for set in self.sets.iter().chain([&members]) {
            content.extend((set.len() as u64).to_le_bytes());
            set.iter().for_each(|member| content.extend(member));
        }
        Ok(Some((members, content)))
    }

    fn add(&mut self, members: Vec<RecordHash>) {
        let set = self.sets.len();
        self.set_of.extend(members.iter().map(|m| (*m, set)));
        self.sets.push(members);
    }

    fn member(&self, id: &str) -> RecordHash {
        let hash = Sha256::new_with_prefix(self.salt).chain_update(id.as_bytes()).finalize();
        let mut member = [0; 16];
        member.copy_from_slice(&hash[..16]);
        member
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> RecordIds {
        RecordIds::new(ids).unwrap()
    }

    #[test]
    fn a_set_that_overlaps_another_is_not_admitted_after_a_restart_either() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut sets = DisjointSets::open(dir.path()).unwrap();
        assert!(!path.exists());
        assert_eq!(sets.admit(&ids(["a", "b", "c"])).unwrap(), Ok(()));
        for _ in 0..2 {
            assert_eq!(
                sets.admit(&ids(["c", "a", "b"])).unwrap(),
                Ok(()),
                "the same set, in another order"
            );
            assert_eq!(sets.admit(&ids(["a", "b"])).unwrap(), Err(2));
            assert_eq!(sets.admit(&ids(["a", "b", "c", "d"])).unwrap(), Err(3));
            assert_eq!(sets.admit(&ids(["c", "d"])).unwrap(), Err(1));
            sets = DisjointSets::open(dir.path()).unwrap();
        }
        assert_eq!(sets.admit(&ids(["d", "e"])).unwrap(), Ok(()));
        assert_eq!(
            sets.admit(&ids(["a", "b", "c", "d", "e"])).unwrap(),
            Err(5),
            "two sets together are another set"
        );
        let content = std::fs::read(&path).unwrap();
        for cut in [0, 5, 16, 31, 33, 40, content.len() - 1] {
            std::fs::write(&path, &content[..cut]).unwrap();
            let error = DisjointSets::open(dir.path()).unwrap_err();
            assert!(error.to_string().contains("damaged"), "{cut}: {error}");
        }
    }

    proptest! {
        #[test]
        fn admitted_sets_are_equal_or_disjoint(
            asked in proptest::collection::vec(proptest::collection::btree_set(0u8..8, 1..4), 1..8)
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut sets = DisjointSets::open(dir.path()).unwrap();
            let mut admitted: Vec<BTreeSet<u8>> = Vec::new();
            for set in asked {
                let ids = RecordIds::new(set.iter().map(u8::to_string)).unwrap();
                let apart = admitted.iter().all(|other| *other == set || other.is_disjoint(&set));
                prop_assert_eq!(sets.admit(&ids).unwrap().is_ok(), apart);
                if apart {
                    admitted.push(set);
                }
            }
        }
    }
}
