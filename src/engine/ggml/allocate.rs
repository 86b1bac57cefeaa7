//! Finds out how many bytes each device must reserve: walks through a schedule, gives every result bytes, takes them back
//! after its last reader (`ggml_gallocr`, 0.1.161). Who takes and gives when is one thing, a [`Course`], which is the same
//! for graphs that differ in sizes alone; where the bytes are then is another.

mod amount;
mod blocks;
mod course;
mod memory;
mod name;
mod past;
mod scale;
mod turnover;

use std::sync::Arc;

use super::backend::Backend;
use super::graph::Graph;
use super::schedule::Schedule;
use super::tensor::{Buffer, Id, NOWHERE, Place, Tensor};
use super::workbench::Workbench;
pub use course::{Course, Sizes, Trend, Turnovers};
pub use name::Name;
pub use scale::Scale;
pub use turnover::{Ledger, Turnover, Which};

/// How long a tensor holds its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The tensor.
    pub id: Id,
    /// The device.
    pub place: Place,
    /// Which of the device's buffers, where its needs are spread over several.
    pub chunk: usize,
    /// Where in it the tensor begins.
    pub offset: u64,
    /// How much it takes.
    pub bytes: u64,
    /// The moment (index into [`Schedule::nodes`]) from which it is alive; 0 also for what is there before the first.
    pub from: usize,
    /// The moment after which it is gone, or in which another takes its bytes over; the number of moments for what
    /// stays.
    pub until: usize,
    /// The operand whose bytes it took over, in place; none for bytes of its own.
    pub takes_over: Id,
}

/// Who still needs a tensor's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    readers: u32,
    views: u32,
    standing: Standing,
}

/// Whose bytes a tensor uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its own, which it lacks as yet, or again.
    Wants,
    /// Its own: see [`Holding`].
    Holds,
    /// Another's.
    Views,
    /// Its own, since before the allocator came.
    Given,
}

/// The bytes that a tensor holds, or held last.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    place: Place,
    /// Which of the device's; none where they were taken before.
    which: Option<Which>,
    /// Its place among the lives, where these are noted.
    life: u32,
}

/// How long a tensor holds what was taken, wherever that is.
#[derive(Clone, Copy, Debug)]
struct Life {
    id: Id,
    place: Place,
    /// The how many-th of the device's takes it was.
    take: usize,
    from: usize,
    until: usize,
    takes_over: Id,
}

struct Walk<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    backends: &'a [Backend],
    bench: &'a mut Workbench,
    lives: Option<Vec<Life>>,
    moment: usize,
}

impl Holding {
    /// Nothing.
    const NONE: Self = Self { place: NOWHERE, which: None, life: u32::MAX };
}

impl Claim {
    fn of(tensor: &Tensor) -> Self {
        let standing = match (tensor.view_of.get(), tensor.buffer) {
            (Some(_), _) => Standing::Views,
            (None, Buffer::Unallocated) => Standing::Wants,
            (None, Buffer::Weights(_) | Buffer::Cache(_)) => Standing::Given,
        };
        Self { readers: 0, views: 0, standing }
    }

    /// Whether the tensor lacks bytes of its own.
    pub fn wants(&self) -> bool {
        self.standing == Standing::Wants
    }

    /// Whether anybody reads the tensor.
    pub fn is_read(&self) -> bool {
        self.readers > 0
    }

    /// Whether it had bytes before the allocator came.
    pub fn is_given(&self) -> bool {
        self.standing == Standing::Given
    }

    fn read(&mut self, times: i32) {
        if self.standing != Standing::Given {
            self.readers = self.readers.wrapping_add_signed(times);
        }
    }
}

/// Who needs what in `graph`, whatever its schedule.
pub fn claims(graph: &Graph) -> Vec<Claim> {
    let mut claims: Vec<Claim> = graph.tensors.iter().map(Claim::of).collect();
    for &id in &graph.nodes {
        let node = &graph[id];
        if let Some(below) = node.view_of.get() {
            claims[below.index()].views += 1;
        }
        for source in graph.sources(node) {
            claims[source.index()].read(1);
        }
    }
    claims
}

/// Who takes and gives bytes of each device when `schedule` is carried out, found out on `bench`: `claims` are those of its
/// graph as it was before.
pub fn course(
    graph: &Graph,
    claims: &[Claim],
    schedule: &Schedule,
    backends: &[Backend],
    bench: &mut Workbench,
) -> Course {
    whole(graph, claims, schedule, backends, bench, None).0
}

fn whole(
    graph: &Graph,
    claims: &[Claim],
    schedule: &Schedule,
    backends: &[Backend],
    bench: &mut Workbench,
    lives: Option<Vec<Life>>,
) -> (Course, Vec<Life>) {
    bench.claims.clear();
    bench.claims.extend_from_slice(claims);
    bench.claims.extend(graph.tensors[claims.len()..].iter().map(Claim::of));
    for &(id, operand, source) in &schedule.rewired {
        bench.claims[source.index()].read(-1);
        bench.claims[graph.slots(id)[operand].index()].read(1);
    }
    // what keeps an original alive until it is copied; it is no view of it
    for input in &schedule.inputs {
        bench.claims[input.index()].read(1);
    }
    let lives = walk(graph, schedule, backends, bench, lives);
    if bench.all.len() < graph.tensors.len() {
        bench.all = (0..graph.tensors.len() as u32).map(Id).collect();
    }
    let mut course = Course::new(backends.len(), &bench.all);
    let turnover = |ledger: &Ledger| Arc::new(ledger.turnover(|name| name));
    course.go_on(0, &bench.ledgers.iter().map(turnover).enumerate().collect());
    (course, lives)
}

/// The same, with the bytes that each device must reserve, and what is alive when.
pub fn watch(
    graph: &Graph,
    claims: &[Claim],
    schedule: &Schedule,
    backends: &[Backend],
    bench: &mut Workbench,
) -> (Vec<u64>, Vec<Lifetime>) {
    let (course, lives) = whole(graph, claims, schedule, backends, bench, Some(Vec::new()));
    let sizes = Sizes::of(graph, backends);
    let devices = 0..course.devices();
    let (reserved, taken): (_, Vec<_>) = devices.map(|device| course.watch(device, &sizes)).unzip();
    let lifetime = |Life { id, place, take, from, until, takes_over }| {
        let address = taken[usize::from(place)][take];
        let bytes = backends[usize::from(place)].allocation(&graph[id]);
        let until = if until == usize::MAX { schedule.nodes.len() } else { until };
        Lifetime {
            id,
            place,
            chunk: usize::from(address.chunk),
            offset: address.offset,
            bytes,
            from,
            until,
            takes_over,
        }
    };
    (reserved, lives.into_iter().map(lifetime).collect())
}

/// More than any graph has readers, or views, of one tensor.
const MANY: u32 = 1 << 20;

/// How a tensor stands between two sections of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    standing: Standing,
    /// Views that there are already, and that somebody still reads.
    views: u32,
    /// Where it holds bytes.
    place: Option<Place>,
}

impl Held {
    /// What is held as long as the graph runs.
    pub const fn kept(place: Place) -> Self {
        Self { standing: Standing::Holds, views: 0, place: Some(place) }
    }

    /// As it was left on `bench`.
    pub fn on(bench: &Workbench, id: Id) -> Self {
        let Claim { views, standing, .. } = bench.claims[id.index()];
        let place = (standing == Standing::Holds).then_some(bench.holdings[id.index()].place);
        Self { standing, views: views % MANY, place }
    }

    fn put_on(self, bench: &mut Workbench, id: Id) {
        let Self { standing, views, place } = self;
        bench.claims[id.index()] = Claim { readers: 0, views, standing };
        if let Some(place) = place {
            bench.holdings[id.index()] = Holding { place, ..Holding::NONE };
        }
    }
}

/// What is known of a graph before a part of its schedule, and of what comes behind it.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// What earlier parts left.
    pub held: Vec<(Id, Held)>,
    /// What later ones still read.
    pub read: Vec<Id>,
    /// What is looked at in another way until some time in this part: once for each who does that, and is not there yet.
    pub viewed: Vec<Id>,
    /// What is still looked at in another way in later ones.
    pub viewed_later: Vec<Id>,
}

/// Carries out a part of a graph's schedule, and leaves what every device gives and takes back on `bench`.
pub fn go_on(graph: &Graph, schedule: &Schedule, part: Part, backends: &[Backend], bench: &mut Workbench) {
    bench.claims.resize(graph.tensors.len(), Claim { readers: 0, views: 0, standing: Standing::Given });
    bench.holdings.resize(graph.tensors.len(), Holding::NONE);
    for &(id, _) in schedule.leafs.iter().chain(&schedule.nodes) {
        for id in std::iter::once(id).chain(graph.sources(&graph[id])) {
            for id in std::iter::once(id).chain(graph[id].view_of.get()) {
                bench.claims[id.index()] = Claim::of(&graph[id]);
            }
        }
    }
    for (id, held) in part.held {
        held.put_on(bench, id);
    }
    for &(id, _) in &schedule.nodes {
        for source in graph.sources(&graph[id]) {
            bench.claims[source.index()].read(1);
        }
    }
    for id in part.read {
        bench.claims[id.index()].read(MANY.cast_signed());
    }
    for id in part.viewed {
        bench.claims[id.index()].views += 1;
    }
    for id in part.viewed_later {
        bench.claims[id.index()].views += MANY;
    }
    walk(graph, schedule, backends, bench, None);
}

/// Carries `schedule` out with the claims that lie on `bench`, and leaves what every device gives and takes back
/// there.
fn walk(
    graph: &Graph,
    schedule: &Schedule,
    backends: &[Backend],
    bench: &mut Workbench,
    lives: Option<Vec<Life>>,
) -> Vec<Life> {
    bench.holdings.resize(graph.tensors.len(), Holding::NONE);
    bench.ledgers.iter_mut().for_each(Ledger::clear);
    bench.ledgers.resize_with(backends.len(), Ledger::default);
    let mut walk = Walk { graph, schedule, backends, bench, lives, moment: 0 };
    walk.run();
    walk.lives.unwrap_or_default()
}

impl Walk<'_> {
    fn run(&mut self) {
        let Self { graph, schedule, .. } = *self;
        for &(leaf, place) in &schedule.leafs {
            self.allocate(leaf, place);
        }
        for (moment, &(id, place)) in schedule.nodes.iter().enumerate() {
            self.moment = moment;
            let node = &graph[id];
            for source in graph.sources(node) {
                self.allocate(source, place);
            }
            self.allocate(id, place);
            for source in graph.sources(node) {
                self.read(source);
            }
        }
    }

    /// Gives `id` its bytes, if it wants any: an operand's where possible, else new ones.
    #[inline]
    fn allocate(&mut self, id: Id, place: Place) {
        if self.bench.claims[id.index()].standing == Standing::Wants {
            self.give(id, place);
        }
    }

    // apart, so that asking whether a tensor wants bytes, which most do not, costs no call
    #[inline(never)]
    fn give(&mut self, id: Id, place: Place) {
        let graph = self.graph;
        let tensor = &graph[id];
        self.bench.claims[id.index()].standing = Standing::Holds;
        if tensor.op.can_be_in_place()
            && let Some(parent) = graph.sources(tensor).find(|source| self.can_take_over(id, *source))
        {
            let held = self.bench.holdings[parent.index()];
            let which = self.which(parent);
            self.bench.ledgers[usize::from(held.place)].hand_over(which, self.schedule.name(id));
            self.forget(parent);
            self.hold(id, Holding { which: Some(which), ..held }, parent);
            return;
        }
        let name = self.schedule.name(id);
        let doubled = self.backends[usize::from(place)].doubles(tensor.op);
        let which = self.bench.ledgers[usize::from(place)].take(name, doubled, !tensor.output);
        self.hold(id, Holding { place, which: Some(which), life: u32::MAX }, Id::NONE);
    }

    /// Which bytes of its device it has.
    fn which(&mut self, id: Id) -> Which {
        let Workbench { holdings, ledgers, .. } = &mut *self.bench;
        let Holding { place, which, .. } = holdings[id.index()];
        which.unwrap_or_else(|| ledgers[usize::from(place)].had(self.schedule.name(id)))
    }

    /// Whether `id` is the last to need `parent`, whose layout is the same. (Views hold nothing, so they never qualify.)
    fn can_take_over(&self, id: Id, parent: Id) -> bool {
        let claim = &self.bench.claims[parent.index()];
        let tensor = &self.graph[parent];
        claim.standing == Standing::Holds
            && !tensor.output
            && claim.readers == 1
            && claim.views == 0
            && self.graph[id].same_layout(tensor)
    }

    /// One reader less; whoever is not needed any more gives its bytes back.
    fn read(&mut self, id: Id) {
        let claim = &mut self.bench.claims[id.index()];
        if claim.standing == Standing::Given {
            return;
        }
        claim.readers -= 1;
        if claim.readers > 0 || claim.views > 0 {
            return;
        }
        let mut owner = id;
        if claim.standing == Standing::Views {
            let below = self.graph[id].view_of;
            owner = below;
            let below = &mut self.bench.claims[below.index()];
            below.views = below.views.saturating_sub(1);
            if below.views > 0 || below.readers > 0 {
                return;
            }
        }
        if self.bench.claims[owner.index()].standing == Standing::Holds && !self.graph[owner].output {
            let Holding { place, .. } = self.bench.holdings[owner.index()];
            let which = self.which(owner);
            self.bench.ledgers[usize::from(place)].give_back(which);
            self.forget(owner);
        }
    }

    /// `held` is what `id` takes, or takes over from another tensor.
    fn hold(&mut self, id: Id, mut held: Holding, takes_over: Id) {
        if let Some(lives) = &mut self.lives {
            held.life = lives.len() as u32;
            let Holding { place, which, .. } = held;
            // lives are noted of whole graphs, before which nobody took anything
            let take = which.map_or(0, Which::at);
            lives.push(Life { id, place, take, from: self.moment, until: usize::MAX, takes_over });
        }
        self.bench.holdings[id.index()] = held;
    }

    fn forget(&mut self, id: Id) {
        self.bench.claims[id.index()].standing = Standing::Wants;
        if let Some(lives) = &mut self.lives {
            lives[self.bench.holdings[id.index()].life as usize].until = self.moment;
        }
    }
}
