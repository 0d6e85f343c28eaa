//! What is known of an entity's image in the log: a session, a stretch of a queue, of the message table, of the retained
//! topics. A checkpoint writes the images of those that have changed since theirs was written.

use super::place::Place;

/// An entity's image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    place: Option<Place>,
    changed: bool,
}

impl Page {
    /// A page whose image lies there, and says all.
    pub fn at(place: Place) -> Page {
        Page { place: Some(place), changed: false }
    }

    /// The entity has changed.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Whether the entity has changed since its image was made.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The image is made now: what changes from here on it does not have.
    pub fn imaged(&mut self) {
        self.changed = false;
    }

    /// Where the image lies, if there is one on disk.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The image lies there now; where the one before lay.
    pub fn written(&mut self, place: Place) -> Option<Place> {
        self.place.replace(place)
    }
}
