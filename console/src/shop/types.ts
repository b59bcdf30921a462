// Shops in the answers of the admin API. Amounts are texts with their currency.

export interface Site {
  slug: string;
  workspace: string;
  title: string;
  currency: string;
  products: number;
  openCarts: number;
  createdAt: string;
}

export interface Item {
  product: string;
  variant: string;
  name: string;
  quantity: number;
  price: string;
  /** Only in orders. */
  sent: number | null;
}

export interface Order {
  id: string;
  site: string;
  workspace: string;
  state: string;
  items: Item[];
  coupon: string | null;
  subtotal: string;
  shipping: string;
  tax: string;
  discount: string;
  total: string;
  method: string;
  createdAt: string;
  updatedAt: string;
}

export interface Cart {
  status: string;
  items: Item[];
  subtotal: string;
  coupon: string | null;
  createdAt: string;
  updatedAt: string;
  expiresAt: string;
}

export interface StockLine {
  product: string;
  name: string;
  variant: string;
  options: string;
  sku: string | null;
  price: string;
  /** Null where it is not counted. */
  available: number | null;
  reserved: number | null;
  sold: number | null;
}
