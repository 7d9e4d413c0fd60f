import {defineConfig} from 'vite';

// WEIR: the server behind `npx vite`, for work on the pages. `/console/` becomes the setting console.path when it is served.
const server = process.env.WEIR ?? 'http://127.0.0.1:8080';
const paths = ['/console/v1', '/v1', '/v2', '/grps', '/salience.v1.Salience', '/evergreen', '/metrics', '/readyz', '/openapi.json',
  '/docs', '/tokenize', '/detokenize', '/grpc.', '/favicon.svg'];

export default defineConfig({
  base: '/console/',
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
  build: {target: 'es2022', modulePreload: false, assetsInlineLimit: 0, sourcemap: false, reportCompressedSize: false,
    rollupOptions: {output: {entryFileNames: '[name]-[hash].js', assetFileNames: '[name]-[hash][extname]'}}},
  server: {proxy: Object.fromEntries(paths.map((path) => [path, {target: server, changeOrigin: true, headers: {origin: server}}]))},
});
