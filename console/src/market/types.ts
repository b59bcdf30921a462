// The market in the answers of the admin API. Amounts are decimal texts.

export interface LedgerEntry {
  place: number;
  id: string;
  at: string;
  transaction: string | null;
  task: string | null;
  note: string | null;
  lines: { account: string; type: string; amount: string; balance: string | null }[];
}

export interface Ledger {
  currency: string;
  entries: LedgerEntry[];
  next: number | null;
}

export interface LedgerAccounts {
  currency: string;
  accounts: { account: string; balance: string }[];
  next: string | null;
}

export interface Escrow {
  currency: string;
  states: { status: string; purchases: number; price: string; held: string }[];
  turns: number;
  turnsHeld: string;
  exact: boolean;
}

export interface LedgerCheck {
  clean: boolean;
  accounts: number;
  entries: number;
  transactions: number;
  holds: number;
  turnHolds: number;
  atWork: boolean;
  differences: string[];
  leftOff: number;
}

export interface Purchase {
  id: string;
  task: string;
  capability: string;
  buyer: string;
  seller: string;
  price: string;
  commission: string;
  status: string;
  decidedBy: string;
  reason: string | null;
  deadline: string | null;
  dueAt: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Listing {
  id: string;
  seller: string;
  title: string;
  category: string;
  price: string;
  pricingModel: string;
  status: string;
  createdAt: string;
}
