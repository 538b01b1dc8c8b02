//! One thread of a child process stopped while all others run, which no signal does: as a debugger
//! does it (Linux).
#![allow(unsafe_code, reason = "std cannot trace a process")]

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::time::Duration;

use super::wait::eventually;

/// A stopped thread; it goes on when this is dropped.
pub struct FrozenThread {
    thread: i32,
    /// Only the thread that stopped it may let it go on.
    _not_send: PhantomData<*const ()>,
}

impl FrozenThread {
    /// Stops the thread with this id.
    #[track_caller]
    pub(super) fn new(thread: i32) -> Self {
        request(libc::PTRACE_SEIZE, thread).expect("the thread can be traced");
        let frozen = Self { thread, _not_send: PhantomData };
        request(libc::PTRACE_INTERRUPT, thread).expect("the thread can be stopped");
        let mut status = 0;
        // SAFETY: plain system call; `status` is ours.
        let stopped = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        assert!(stopped == thread && libc::WIFSTOPPED(status), "{status:#x}");
        frozen
    }

    /// Waits until the whole process has ended, which it can only be seen to do when its stopped
    /// thread is collected too.
    #[track_caller]
    pub fn wait_end(self, deadline: Duration) {
        eventually(deadline, || {
            let mut status = 0;
            let options = libc::__WALL | libc::WNOHANG;
            // SAFETY: plain system call; `status` is ours.
            match unsafe { libc::waitpid(self.thread, &raw mut status, options) } {
                0 => Err("the process still runs"),
                _ => Ok(()),
            }
        });
    }
}

impl Drop for FrozenThread {
    fn drop(&mut self) {
        // An error says that the thread has ended.
        let _ = request(libc::PTRACE_DETACH, self.thread);
    }
}

fn request(what: libc::c_uint, thread: i32) -> io::Result<()> {
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take no pointers.
    match unsafe { libc::ptrace(what, thread, none, none) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
