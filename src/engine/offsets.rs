//! Which offset may be committed: everything below the first record that is not settled.
//!
//! Records enter in offset order and may settle in any order. Offsets have gaps (transaction
//! markers, compaction), so the prefix walks the entries and never counts offsets.
//!
//! An offset always names the *next* record, as in Kafka: prefix 7 means 0..=6 are settled.

use std::collections::VecDeque;

/// The records of one lane that were handed on and are not all settled, in offset order.
#[derive(Debug)]
pub struct Window<T> {
    entries: VecDeque<(i64, Option<T>)>,
    /// Index of the first entry; indices count from 0 over the life of the window.
    first_index: u64,
    /// The prefix when no entry is left.
    end_offset: i64,
}

impl<T> Window<T> {
    /// An empty window: everything below `start_offset` is settled.
    pub fn new(start_offset: i64) -> Self {
        Self { entries: VecDeque::new(), first_index: 0, end_offset: start_offset }
    }

    /// Adds the record at `offset` and returns its index.
    ///
    /// # Panics
    /// If `offset` is below one added before: the caller mixed up two assignments.
    pub fn push(&mut self, offset: i64, value: T) -> u64 {
        assert!(offset >= self.end_offset, "offset {offset} after {}", self.end_offset);
        self.entries.push_back((offset, Some(value)));
        self.end_offset = offset + 1;
        self.first_index + self.entries.len() as u64 - 1
    }

    /// Nothing below `offset` will be added any more.
    pub fn skip_to(&mut self, offset: i64) {
        self.end_offset = self.end_offset.max(offset);
    }

    /// The unsettled record at `index`.
    pub fn get(&self, index: u64) -> Option<(i64, &T)> {
        let (offset, value) = self.entries.get(self.slot(index)?)?;
        Some((*offset, value.as_ref()?))
    }

    /// The unsettled record at `index`.
    pub fn get_mut(&mut self, index: u64) -> Option<&mut T> {
        let slot = self.slot(index)?;
        self.entries.get_mut(slot)?.1.as_mut()
    }

    /// Settles the record at `index` and returns it; `None` when it was settled before.
    pub fn settle(&mut self, index: u64) -> Option<T> {
        let slot = self.slot(index)?;
        let value = self.entries.get_mut(slot)?.1.take()?;
        while let Some((_, None)) = self.entries.front() {
            self.entries.pop_front();
            self.first_index += 1;
        }
        Some(value)
    }

    /// The offset below which every record is settled.
    pub fn prefix(&self) -> i64 {
        self.entries.front().map_or(self.end_offset, |(offset, _)| *offset)
    }

    /// Adds a record that was settled before.
    ///
    /// # Panics
    /// As [`Self::push`].
    pub fn push_settled(&mut self, offset: i64) {
        assert!(offset >= self.end_offset, "offset {offset} after {}", self.end_offset);
        self.end_offset = offset + 1;
        if !self.entries.is_empty() {
            self.entries.push_back((offset, None));
        }
    }

    /// The prefix as it would be if every record that `also` names were settled too, and the
    /// offsets above it that would be.
    pub fn settled_with(
        &self,
        also: impl Fn(&T) -> bool + Copy,
    ) -> (i64, impl Iterator<Item = i64>) {
        let open = move |value: &Option<T>| value.as_ref().is_some_and(|value| !also(value));
        let first = self.entries.iter().position(|(_, value)| open(value));
        let prefix = first.map_or(self.end_offset, |first| self.entries[first].0);
        let above = self.entries.range(first.unwrap_or(self.entries.len())..);
        let settled = above.filter(move |(_, value)| !open(value)).map(|(offset, _)| *offset);
        (prefix, settled)
    }

    /// The unsettled records in order, each with its index.
    pub fn unsettled(&self) -> impl Iterator<Item = (u64, &T)> {
        let indexed = (self.first_index..).zip(&self.entries);
        indexed.filter_map(|(index, (_, value))| Some((index, value.as_ref()?)))
    }

    /// The first unsettled record.
    pub fn front(&self) -> Option<&T> {
        self.entries.front()?.1.as_ref()
    }

    /// The offset after the last record added.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Records between the prefix and the end, settled or not.
    pub fn span(&self) -> usize {
        self.entries.len()
    }

    fn slot(&self, index: u64) -> Option<usize> {
        index.checked_sub(self.first_index).and_then(|slot| usize::try_from(slot).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_skipped_counts_as_settled_once_all_before_it_is() {
        let mut window = Window::new(10);
        let index = window.push(10, ());
        window.skip_to(20);
        window.skip_to(15);
        assert_eq!(window.prefix(), 10);
        window.settle(index);
        assert_eq!(window.prefix(), 20);
        window.push(20, ());
    }

    // R19
    #[test]
    fn the_prefix_stops_before_the_first_unsettled_record() {
        let mut window = Window::new(10);
        assert_eq!(window.prefix(), 10);
        let indices: Vec<u64> = [10, 11, 15].map(|offset| window.push(offset, offset)).to_vec();
        assert_eq!(window.settle(indices[1]), Some(11));
        assert_eq!(window.prefix(), 10);
        assert_eq!(window.settle(indices[0]), Some(10));
        assert_eq!(window.prefix(), 15); // 12..=14 do not exist
        assert_eq!(window.settle(indices[0]), None);
        assert_eq!(window.settle(indices[2]), Some(15));
        assert_eq!((window.prefix(), window.span()), (16, 0));
    }

    #[test]
    #[should_panic(expected = "offset 4 after 6")]
    fn going_back_is_a_bug() {
        let mut window = Window::new(0);
        window.push(5, ());
        window.push(4, ());
    }

    proptest! {
        // R42: random settling order against the obvious model.
        #[test]
        fn equals_the_model(
            start in 0..1_000_i64,
            actions in prop::collection::vec(
                (any::<bool>(), 0..5_i64, any::<prop::sample::Index>()),
                0..200,
            ),
        ) {
            let mut window = Window::new(start);
            let mut model: BTreeMap<i64, bool> = BTreeMap::new(); // offset -> settled
            let mut indices = Vec::new();
            let mut end = start;
            for (push, gap, which) in actions {
                if push || indices.is_empty() {
                    let offset = end + gap;
                    indices.push((window.push(offset, offset), offset));
                    model.insert(offset, false);
                    end = offset + 1;
                } else {
                    let (index, offset) = indices[which.index(indices.len())];
                    let settled = model.insert(offset, true).unwrap();
                    prop_assert_eq!(window.settle(index), (!settled).then_some(offset));
                }
                let first_open = model.iter().find(|(_, settled)| !**settled);
                let expected = first_open.map_or(end, |(offset, _)| *offset);
                prop_assert_eq!(window.prefix(), expected);
                prop_assert_eq!(window.end_offset(), end);
            }
        }
    }
}
