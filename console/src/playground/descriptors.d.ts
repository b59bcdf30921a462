// Made by vite.descriptors.ts.
declare module 'virtual:descriptors' {
  /** The FileDescriptorProto of lf.a2a.v1, in base64. */
  export const v1: string;
  /** The same of a2a.v1. */
  export const v03: string;
}
