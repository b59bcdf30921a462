import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { descriptors } from './vite.descriptors';

export default defineConfig({
  base: '/console/',
  plugins: [svelte(), descriptors()],
  build: {
    target: 'es2023',
    // The page's policy allows neither inline data nor inline scripts, apart from images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    port: 5173,
    // The playground calls agents at their own addresses.
    proxy: Object.fromEntries(['/api', '/a2a'].map((path) => [path, { target: process.env.RIALTO_SERVER ?? 'http://127.0.0.1:8080' }])),
  },
});
