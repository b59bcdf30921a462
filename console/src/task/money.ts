// The money of a task, as the admin API answers it. Amounts are decimal texts.

export interface MoneyOfTask {
  task: string;
  agent: string;
  what: string;
  state: string;
  currency: string;
  charged: string;
  held: string;
  payer: string | null;
  payee: string | null;
  entries: string[];
  at: string;
}

export interface TaskMoney {
  items: MoneyOfTask[];
  partial: boolean;
}

/** The sum of decimal texts, to the digits that they have. */
function sum(amounts: string[]): string {
  const digits = Math.max(0, ...amounts.map((amount) => amount.split('.')[1]?.length ?? 0));
  const total = amounts.reduce((all, amount) => {
    const [whole = '0', rest = ''] = amount.split('.');
    return all + BigInt(whole + rest.padEnd(digits, '0'));
  }, 0n);
  const text = (total < 0n ? -total : total).toString().padStart(digits + 1, '0');
  const shown = digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
  return total < 0n ? `-${shown}` : shown;
}

/** What was paid and what is set aside, by currency. */
export function totals(items: MoneyOfTask[]): { currency: string; charged: string; held: string }[] {
  const currencies = [...new Set(items.map((item) => item.currency))];
  return currencies.map((currency) => {
    const of = items.filter((item) => item.currency === currency);
    return { currency, charged: sum(of.map((item) => item.charged)), held: sum(of.map((item) => item.held)) };
  });
}
