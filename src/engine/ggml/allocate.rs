//! Finds out how many bytes each device must reserve: walks through a schedule, gives every result bytes, takes them back
//! after its last reader (`ggml_gallocr`, 0.1.161). Who takes and gives when is one thing, a [`Course`], which is the same
//! for graphs that differ in sizes alone; where the bytes are then is another.

mod amount;
mod blocks;
mod course;

use super::backend::Backend;
use super::graph::Graph;
use super::schedule::Schedule;
use super::tensor::{Buffer, Id, Place, Tensor};
use super::workbench::Workbench;
use blocks::Blocks;
pub use course::{Course, Move, Sizes, Trend};

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
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    place: Place,
    /// Which of the device's takes it was.
    take: u32,
    /// Its place among the lives, where these are noted.
    life: u32,
}

/// How long a tensor holds what was taken, wherever that is.
#[derive(Clone, Copy, Debug)]
struct Life {
    id: Id,
    place: Place,
    take: u32,
    from: usize,
    until: usize,
    takes_over: Id,
}

struct Walk<'a> {
    graph: &'a Graph,
    schedule: &'a Schedule,
    backends: &'a [Backend],
    moves: &'a mut [Vec<Move>],
    /// Takes so far, per device.
    takes: Vec<u32>,
    claims: &'a mut [Claim],
    holdings: &'a mut [Holding],
    lives: Option<Vec<Life>>,
    moment: usize,
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
    walk(graph, claims, schedule, backends, bench, None).0
}

/// The same, with the bytes that each device must reserve, and what is alive when.
pub fn watch(
    graph: &Graph,
    claims: &[Claim],
    schedule: &Schedule,
    backends: &[Backend],
    bench: &mut Workbench,
) -> (Vec<u64>, Vec<Lifetime>) {
    let (course, lives) = walk(graph, claims, schedule, backends, bench, Some(Vec::new()));
    let sizes = Sizes::of(graph, backends);
    let devices = 0..course.devices();
    let (blocks, taken): (Vec<_>, Vec<_>) = devices.map(|device| course.carry_out(device, &sizes)).unzip();
    let reserved = blocks.iter().map(Blocks::reserved).collect();
    let lifetime = |Life { id, place, take, from, until, takes_over }| {
        let address = taken[usize::from(place)][take as usize].address;
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

fn walk(
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
    bench.holdings.resize(graph.tensors.len(), Holding::default());
    for &(id, operand, source) in &schedule.rewired {
        bench.claims[source.index()].read(-1);
        bench.claims[graph.slots(id)[operand].index()].read(1);
    }
    // what keeps an original alive until it is copied; it is no view of it
    for input in &schedule.inputs {
        bench.claims[input.index()].read(1);
    }
    bench.moves.iter_mut().for_each(Vec::clear);
    bench.moves.resize_with(backends.len(), Vec::new);
    let mut walk = Walk {
        graph,
        schedule,
        backends,
        moves: &mut bench.moves,
        takes: vec![0; backends.len()],
        claims: &mut bench.claims,
        holdings: &mut bench.holdings,
        lives,
        moment: 0,
    };
    walk.run();
    let lives = walk.lives.unwrap_or_default();
    (Course::new(&bench.moves), lives)
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
        if self.claims[id.index()].standing == Standing::Wants {
            self.give(id, place);
        }
    }

    fn give(&mut self, id: Id, place: Place) {
        let graph = self.graph;
        let tensor = &graph[id];
        self.claims[id.index()].standing = Standing::Holds;
        if tensor.op.can_be_in_place()
            && let Some(parent) = graph.sources(tensor).find(|source| self.can_take_over(id, *source))
        {
            let Holding { place, take, .. } = self.holdings[parent.index()];
            self.forget(parent);
            self.hold(id, place, take, parent);
            return;
        }
        let original = self.schedule.original(id);
        let doubled = self.backends[usize::from(place)].doubles(tensor.op);
        self.moves[usize::from(place)].push(Move::take(original, doubled));
        let take = self.takes[usize::from(place)];
        self.takes[usize::from(place)] += 1;
        self.hold(id, place, take, Id::NONE);
    }

    /// Whether `id` is the last to need `parent`, whose layout is the same. (Views hold nothing, so they never qualify.)
    fn can_take_over(&self, id: Id, parent: Id) -> bool {
        let claim = &self.claims[parent.index()];
        let tensor = &self.graph[parent];
        claim.standing == Standing::Holds
            && !tensor.output
            && claim.readers == 1
            && claim.views == 0
            && self.graph[id].same_layout(tensor)
    }

    /// One reader less; whoever is not needed any more gives its bytes back.
    fn read(&mut self, id: Id) {
        let claim = &mut self.claims[id.index()];
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
            let below = &mut self.claims[below.index()];
            below.views = below.views.saturating_sub(1);
            if below.views > 0 || below.readers > 0 {
                return;
            }
        }
        if self.claims[owner.index()].standing == Standing::Holds && !self.graph[owner].output {
            let Holding { place, take, .. } = self.holdings[owner.index()];
            self.moves[usize::from(place)].push(Move::give_back(take));
            self.forget(owner);
        }
    }

    fn hold(&mut self, id: Id, place: Place, take: u32, takes_over: Id) {
        let holding = &mut self.holdings[id.index()];
        (holding.place, holding.take) = (place, take);
        if let Some(lives) = &mut self.lives {
            holding.life = lives.len() as u32;
            lives.push(Life { id, place, take, from: self.moment, until: usize::MAX, takes_over });
        }
    }

    fn forget(&mut self, id: Id) {
        self.claims[id.index()].standing = Standing::Wants;
        if let Some(lives) = &mut self.lives {
            lives[self.holdings[id.index()].life as usize].until = self.moment;
        }
    }
}
