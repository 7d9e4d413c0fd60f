"""OpenAPI: the document holds every route, each described; a stock validator takes it, and real answers are of its schemas."""
import json
import os
import re
import subprocess

import browsers_test
import harness


class OpenApi(harness.Case):
    def test_a_stock_validator_takes_it_and_answers_are_of_its_schemas(self):
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/openapi_client.js'), self.server.url('')], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120,
                              env={**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')})
        out = done.stdout.decode()
        counts = re.search(r'^(\d+) passed, 0 failed$', out, re.M)
        self.assertTrue(counts, out)
        self.assertGreater(int(counts[1]), 40)

    def test_every_route_is_there_and_described(self):
        document = harness.curl(self.server.url('/openapi.json')).json()
        listed = {(method.upper(), path): o for path, operations in document['paths'].items() for method, o in operations.items()}
        routes = browsers_test.routes(harness.MODELS)
        self.assertEqual({(r['method'], r['path']) for r in routes}, set(listed))
        for route in routes:
            operation = listed[route['method'], route['path']]
            name = f"{route['method']} {route['path']}"
            self.assertEqual(route['permission'], operation['x-permission'], name)
            self.assertNotEqual(name, operation['summary'], f'{name}: say what it does in the openapi.json of its dialect')

    def test_no_description_is_of_a_route_that_is_not_there(self):
        document = harness.curl(self.server.url('/openapi.json')).json()
        listed = {f'{method.upper()} {path}' for path, operations in document['paths'].items() for method in operations}
        for text in (harness.ROOT / 'src/dialects').glob('*/openapi.json'):
            for operation in json.loads(text.read_text())['operations']:
                route = ' '.join(operation.split()[:2])  # a media type may be behind it
                self.assertIn(route.replace('{prefix}', '/graphpipe'), listed, text)


if __name__ == '__main__':
    harness.main()
