// The time, for ages that grow while they are looked at.

let time = $state(Date.now());

setInterval(() => {
  if (!document.hidden) time = Date.now();
}, 1_000);

export const now = {
  get ms(): number {
    return time;
  },
};
