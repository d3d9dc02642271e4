/*
 * The machine of an item and the protocol of its delivery, for Spin.
 *
 * A claim is identified by item and lease_token. The rows are authoritative; what a worker holds in hand may be
 * old. Time passes in ticks, and only ages and rests of time are kept, so that runs are endless and states finite.
 * Every step that one SQL statement makes is one atomic step here; between two steps anybody may do anything,
 * a worker may stand still for any time, and the clock may run. Labels and comments name the rows T0 to T11 of
 * machine/state.go. README.md says what is left out, and why that is allowed.
 *
 * Sizes, mutants and limits are set with -D; see run.sh.
 */
#ifndef ITEMS
#define ITEMS 1
#endif
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef OPERATORS
#define OPERATORS 1
#endif
#ifndef CAP
#define CAP 2                       /* Policy.Attempts */
#endif
#ifndef LEASE
#define LEASE 2                     /* Policy.Lease, in ticks */
#endif
#ifndef HORIZON
#define HORIZON 3                   /* Policy.Horizon, in ticks */
#endif
#ifndef WINDOW
#define WINDOW (HORIZON + LEASE)    /* how long the provider knows an identifier, in ticks */
#endif
#ifndef PROPERTY
#define PROPERTY 0                  /* check only this one; 0: all */
#endif

/* The properties that are assertions. P7, that every item comes to rest, is the LTL formula at the end. */
#define ONCE     1                  /* P1: nobody is billed twice */
#define FENCE    2                  /* P2: no settle under an old token changes a row */
#define EDGES    3                  /* P3: no state is left but along a row of the table */
#define SINGLE   4                  /* P4: nobody takes an item while its lease holds */
#define TRUE     5                  /* P5: accepted was billed; rejected and quarantined were not */
#define REASON   6                  /* P6: uncertain only where something is unknown */
#define check(property, formula) assert((PROPERTY != 0 && PROPERTY != property) || (formula))

mtype = { pending, leased, accepted, confirmed, uncertain, rejected, quarantined };

/* What a worker is about to write: the settles, and for a retry what the attempt costs. */
mtype = { accept, counted, waived, unsent, doubt, reject, quarantine };

/* A row of weir.deliveries. */
typedef Row {
	mtype state;
	byte attempts;
	byte first;                     /* first_attempt_at: 0 is NULL, else 1 + its age */
	byte due;                       /* next_attempt_at: ticks until then */
	byte lease;                     /* lease_expires_at: ticks until then */
	byte token;                     /* lease_token: 1 + the worker whose claim was the last */
	bool abandoned
};
Row row[ITEMS];

/* What is so, whatever the rows say. */
typedef Truth {
	byte known;                     /* the provider's memory of the identifier: 0 none, else 1 + its age */
	byte billed;
	byte stray;                     /* requests that nobody waits for may arrive for so many ticks */
	bool unclear                    /* ghost: something happened whose outcome nobody was told */
};
Truth truth[ITEMS];

/* What a worker holds in memory. */
typedef Hand {
	byte item;
	bool first;                     /* Item.FirstAttempt */
	byte left;                      /* its own clock's view: ticks until its lease ends */
	bool calling                    /* between the check of its lease and the request's arrival */
};
Hand hand[WORKERS];

/* What an operator saw before deciding. */
#if OPERATORS > 0
typedef Sight {
	byte item;
	bool billed;                    /* the provider's books at that moment */
	bool current                    /* no claim has raised the token since */
};
Sight sight[OPERATORS];
#endif

#ifdef LIVE
byte faults = FAULTS;               /* troubles to come: with endless ones nothing ever ends */
#define trouble faults > 0 -> faults--
#else
#define trouble skip
#endif

#define open(i)     (row[i].state == pending || row[i].state == leased)
#define past(i)     (row[i].first > HORIZON)
#define holds(w, i) (hand[w].item == i && row[i].token == w + 1 && hand[w].left > 0)

#if defined(MUTANT_EXPIRY)
#define expired(i) true
#elif defined(MUTANT_ABANDONED)
#define expired(i) false
#else
#define expired(i) (row[i].lease == 0)
#endif
#define claimable(i) (row[i].state == pending && row[i].due == 0 || row[i].state == leased && expired(i))

/* Every write of a state goes through here. */
inline become(i, to) {
	check(EDGES,
		row[i].state == 0           && (to == pending || to == quarantined) ||
		row[i].state == pending     && to == leased ||
		row[i].state == leased      && to != confirmed ||
		row[i].state == accepted    && (to == confirmed || to == rejected) ||
		row[i].state == uncertain   && (to == accepted || to == pending || to == rejected) ||
		row[i].state == quarantined && to == pending && !row[i].abandoned);
	row[i].state = to;
	row[i].lease = 0;
	row[i].due = 0;
	/* What is never read again in this state is forgotten, so that equal futures are equal states. */
	if
	:: to == accepted || to == rejected || to == uncertain ->
		row[i].attempts = 0;
		row[i].first = 0;
		truth[i].unclear = false
	:: else
	fi
}

/* T1: claim, the UPDATE. The rows were found and locked in the same statement. */
inline claim(w, i) {
	check(SINGLE, row[i].state != leased || row[i].lease == 0);
	hand[w].item = i;
	hand[w].left = LEASE;
	hand[w].first = (row[i].first == 0);
	outcome = 0;
	if
#ifndef MUTANT_HORIZON
	:: past(i) -> outcome = doubt                       /* Item.PastHorizon */
#endif
	:: row[i].attempts >= CAP -> outcome = doubt        /* Item.Attempts > Policy.Attempts, this one included */
	:: else
	fi;
	if
	:: row[i].state == leased -> truth[i].unclear = true; printf("T1 claim w%d i%d, its lease has expired\n", w, i)
	:: else -> printf("T1 claim w%d i%d\n", w, i)
	fi;
	become(i, leased);
	row[i].attempts = (row[i].attempts > CAP -> row[i].attempts : row[i].attempts + 1);
	row[i].first = (row[i].first == 0 -> 1 : row[i].first);
	row[i].lease = LEASE;
	row[i].token = w + 1;
#if OPERATORS > 0
	for (o : 0 .. OPERATORS - 1) {
		sight[o].current = sight[o].current && sight[o].item != i
	}
	o = 0;
#endif
	if
	:: outcome == doubt -> hand[w].left = 0; hand[w].first = false
	:: else
	fi
}

/* The provider gets a request and takes it. */
inline take(i) {
#ifdef MUTANT_IDENTIFIER
	truth[i].billed++;
	truth[i].known = 1;
#else
	if
	:: truth[i].known == 0 || truth[i].known > WINDOW -> truth[i].billed++; truth[i].known = 1
	:: else                                             /* a duplicate */
	fi;
#endif
	check(ONCE, truth[i].billed <= 1)
}

#if defined(MUTANT_UNDO)
#define undo(w) true
#elif defined(MUTANT_NO_UNDO)
#define undo(w) false
#else
#define undo(w) hand[w].first
#endif

/* T3, T4: retry. Cap and horizon are checked by the statement, after the attempt's cost. */
inline postpone(w, i, delay) {
	if
	:: outcome != counted -> row[i].attempts--
	:: else
	fi;
	if
	:: outcome == unsent && undo(w) -> row[i].first = 0
	:: else
	fi;
	if
	:: row[i].attempts >= CAP || row[i].first != 0 && row[i].first - 1 + delay > HORIZON ->
		check(REASON, truth[i].unclear);
		printf("T4 doubt w%d i%d, cap or horizon\n", w, i);
		become(i, uncertain)
	:: else ->
		printf("T3 retry w%d i%d, in %d\n", w, i, delay);
		become(i, pending);
		row[i].due = delay
	fi
}

#if defined(MUTANT_FENCE)
#define fenced(w, i) (row[i].state == leased)
#elif defined(MUTANT_STATE)
#define fenced(w, i) (row[i].token == w + 1)
#else
#define fenced(w, i) (row[i].token == w + 1 && row[i].state == leased)
#endif

/* T2 to T6: one statement each, all with the same fence. Zero rows: ErrStaleLease. */
inline settle(w, i, delay) {
	if
	:: fenced(w, i) ->
		check(FENCE, row[i].token == w + 1);
		if
		:: outcome == accept ->
			check(TRUE, truth[i].billed >= 1);
			printf("T2 accept w%d i%d\n", w, i);
			become(i, accepted)
		:: outcome == counted || outcome == waived || outcome == unsent ->
			postpone(w, i, delay)
		:: outcome == doubt ->
			check(REASON, truth[i].unclear);
			printf("T4 doubt w%d i%d\n", w, i);
			become(i, uncertain)
		:: outcome == reject ->
			check(TRUE, truth[i].billed == 0);
			printf("T5 reject w%d i%d\n", w, i);
			become(i, rejected)
		:: outcome == quarantine ->
			check(TRUE, truth[i].billed == 0);
			row[i].attempts--;
			row[i].first = (undo(w) -> 0 : row[i].first);
			printf("T6 quarantine w%d i%d\n", w, i);
			become(i, quarantined)
		fi
	:: else -> printf("   stale %e w%d i%d\n", outcome, w, i)
	fi
}

/* The call has ended, well or not. */
inline ended(w) {
	hand[w].calling = false;
	hand[w].left = 0;
	hand[w].first = hand[w].first && (outcome == unsent || outcome == quarantine)
}

/* A worker that has settled or crashed remembers nothing; nobody will ever show its token again. */
inline forget(w) {
	if
	:: row[hand[w].item].token == w + 1 -> row[hand[w].item].token = 0
	:: else
	fi;
	hand[w].item = 0;
	hand[w].left = 0;
	hand[w].first = false;
	hand[w].calling = false;
	outcome = 0
}

/* Somebody finds an item to claim: by a wake's id or by a sweep, which is the same to the table. */
inline pick() {
	if
	:: claimable(0) -> i = 0
#if ITEMS > 1
	:: claimable(1) -> i = 1
#endif
	fi
}

/* The answer leaves open whether the request was taken: the attempt counts, or an outage waives it. */
inline open_outcome() {
	truth[i].unclear = true;
	if
	:: outcome = counted
	:: outcome = waived
	fi
}

#ifdef MUTANT_REFUSAL
#define clear(w) true
#else
#define clear(w) hand[w].first
#endif

/* A request goes its way alone. The call's timeout, which bounds it, ends before the lease. */
inline leave(w, i) {
	truth[i].stray = (truth[i].stray > hand[w].left -> truth[i].stray : hand[w].left)
}

/*
 * A worker: claim, check, call, settle. It may stand still at every label, and crash at every label but the
 * first: then its lease, its requests and the provider's memory stay as they are.
 */
active [WORKERS] proctype worker() {
	byte i, o, delay;
	mtype outcome;
idle:
#ifdef MUTANT_LOCK
	/* The candidates were read without a lock, and the UPDATE asks only for the id. */
	atomic { pick() };
	d_step { claim(_pid, i) };
#else
	atomic { pick(); claim(_pid, i) };
#endif
claimed:
	atomic {
		if
		:: outcome == doubt -> printf("   exhausted w%d i%d\n", _pid, i); goto settling
		:: outcome == 0 && hand[_pid].left >= 1 -> hand[_pid].calling = true; printf("   check w%d i%d\n", _pid, i)
		:: outcome == 0 && hand[_pid].left == 0 ->
			outcome = unsent; printf("   lease too short w%d i%d\n", _pid, i); goto settling
		:: trouble; printf("   crash after claim w%d i%d\n", _pid, i); forget(_pid); goto idle
		fi
	};
calling:
	atomic {
		if
		/* It never leaves, provably; or it is refused before it was looked at (429). */
		:: trouble; outcome = unsent; printf("   unsent w%d i%d\n", _pid, i)
		:: trouble; printf("   crash before send w%d i%d\n", _pid, i); forget(_pid); goto idle

		/* It arrives, is taken, and the answer says so: created, or known already. */
		:: take(i); outcome = accept; printf("   taken w%d i%d\n", _pid, i)
		/* It arrives and is taken, and the answer is lost, or speaks of the provider's trouble. */
		:: trouble; take(i); open_outcome(); printf("   taken, answer lost w%d i%d\n", _pid, i)
		/* It is not taken, and the answer, a 500 for instance, leaves that open. */
		:: trouble; open_outcome(); printf("   not taken, answer open w%d i%d\n", _pid, i)
		/* It is refused in clear words; a refusal of a resend says nothing about what came before. */
		:: outcome = (clear(_pid) -> reject : doubt); printf("   refused w%d i%d\n", _pid, i)
		:: outcome = (clear(_pid) -> quarantine : doubt); printf("   refused for now w%d i%d\n", _pid, i)

		/* It has left, and nobody waits for it any more: it may arrive until the call would have timed out. */
		:: trouble; leave(_pid, i); open_outcome(); printf("   given up, on its way w%d i%d\n", _pid, i)
		:: trouble; leave(_pid, i); printf("   crash after send w%d i%d\n", _pid, i); forget(_pid); goto idle
		fi;
		ended(_pid)
	};
settling:
	atomic {
		if
		:: delay = 0
		:: outcome == counted || outcome == waived -> delay = 1
		:: trouble; printf("   crash before settle w%d i%d\n", _pid, i); forget(_pid); goto idle
		fi;
		settle(_pid, i, delay);
		delay = 0;
		if
		:: forget(_pid); goto idle
		:: trouble; printf("   the database's answer is lost w%d i%d\n", _pid, i); goto settling
		fi
	}
}

/* Requests that nobody waits for arrive, once or more often. */
active proctype wire() {
	byte i;
end:
	do
	:: d_step { truth[0].stray > 0; i = 0; take(i); printf("   stray arrives i%d\n", i) }
#if ITEMS > 1
	:: d_step { truth[1].stray > 0; i = 1; take(i); printf("   stray arrives i%d\n", i) }
#endif
	od
}

#define less(x)       x = (x > 0 -> x - 1 : 0)
#define more(x, most) x = (x > 0 && x < most -> x + 1 : x)

/* A call ends before its lease: the tick that would end the lease waits for the call. */
#ifdef LIMIT_FROZEN
#define prompt(w) true
#else
#define prompt(w) (!(hand[w].calling && hand[w].left == 1))
#endif
/* That a lease ends in the hands of a worker that lives is one of the troubles. */
#ifdef LIVE
#define outlived (row[0].state == leased && row[0].lease == 1 && row[0].token != 0)
#define steady   (faults > 0 || !outlived)
#else
#define steady   true
#endif

#if WORKERS == 1
#define may_tick (steady && prompt(0))
#elif WORKERS == 2
#define may_tick (steady && prompt(0) && prompt(1))
#else
#define may_tick (steady && prompt(0) && prompt(1) && prompt(2))
#endif

/* Time: of the database, of the workers and of the provider alike. */
active proctype clock() {
	byte i;
end:
	do
	:: d_step {
		may_tick;
		printf("   tick\n");
#ifdef LIVE
		faults = (outlived -> faults - 1 : faults);
#endif
		for (i : 0 .. ITEMS - 1) {
			less(row[i].due);
			less(row[i].lease);
			more(row[i].first, HORIZON + 2);
			more(truth[i].known, WINDOW + 1);
			less(truth[i].stray)
		}
#ifndef LIMIT_ASLEEP
		for (i : 0 .. WORKERS - 1) {
			less(hand[i].left)
		}
#endif
		i = 0
	}
	od
}

/* Producers. An item that comes later only meets fewer others. */
active proctype producer() {
	byte i;
	atomic {
		do
		:: i < ITEMS ->
			if
			:: become(i, pending); printf("T0 enqueue i%d\n", i)
#if OPERATORS > 0
			:: become(i, quarantined); printf("T0q stage i%d\n", i)
#endif
			fi;
			i++
		:: else -> break
		od
	}
}

#if OPERATORS > 0
/* The reconciler: the provider's books confirm an item, or its own later report takes it back. */
active proctype reconciler() {
	byte i;
end:
	do
	:: atomic {
		if
		:: row[0].state == accepted -> i = 0
#if ITEMS > 1
		:: row[1].state == accepted -> i = 1
#endif
		fi;
		if
		:: become(i, confirmed); printf("T7 confirm i%d\n", i)
		:: truth[i].billed = 0; become(i, rejected); printf("T10 report i%d\n", i)
		fi;
		i = 0
	}
	od
}

#define idle(w, i) (!(hand[w].calling && hand[w].item == i))
#if WORKERS == 1
#define quiet(i) (truth[i].stray == 0 && idle(0, i))
#elif WORKERS == 2
#define quiet(i) (truth[i].stray == 0 && idle(0, i) && idle(1, i))
#else
#define quiet(i) (truth[i].stray == 0 && idle(0, i) && idle(1, i) && idle(2, i))
#endif
#ifdef LIMIT_HASTY
#define settled(i) true
#else
#define settled(i) quiet(i)
#endif

#ifdef MUTANT_RECOVER
#define unchanged(o) true
#else
#define unchanged(o) sight[o].current
#endif

/* An operator: looks at an item and at the provider's books, thinks for any time, and acts. */
active [OPERATORS] proctype operator() {
	byte me, i;
	d_step { me = _pid - (WORKERS + 4) };
look:
	atomic {
		if
		:: row[0].state == uncertain && settled(0) || row[0].state == quarantined || row[0].state == rejected -> i = 0
#if ITEMS > 1
		:: row[1].state == uncertain && settled(1) || row[1].state == quarantined || row[1].state == rejected -> i = 1
#endif
		fi;
		if
		:: row[i].state == uncertain ->
			sight[me].item = i; sight[me].billed = truth[i].billed > 0; sight[me].current = true;
			printf("   look i%d\n", i)
		:: row[i].state == quarantined && !row[i].abandoned ->
			become(i, pending); printf("T9 requeue i%d\n", i); i = 0; goto look
		:: row[i].state != uncertain && !row[i].abandoned ->
			row[i].abandoned = true; printf("T11 abandon i%d\n", i); i = 0; goto look
		fi
	};
act:
	atomic {
		if
		:: row[i].state == uncertain && unchanged(me) ->
			if
			:: sight[me].billed -> check(TRUE, truth[i].billed >= 1); become(i, accepted); printf("T8 accept i%d\n", i)
			:: !sight[me].billed -> check(TRUE, truth[i].billed == 0); become(i, rejected); printf("T8 reject i%d\n", i)
			:: !sight[me].billed -> become(i, pending); row[i].attempts = 0; row[i].first = 0; printf("T8 retry i%d\n", i)
			fi
		:: else -> printf("   state mismatch i%d\n", i)
		fi;
		sight[me].item = 0; sight[me].billed = false; sight[me].current = false; i = 0
	};
	goto look
}
#endif /* OPERATORS */

#ifdef LIVE
/* P7: no item is lost. */
ltl rest { [] (open(0) -> <> !open(0)) }
#endif
