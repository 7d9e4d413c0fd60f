"""Dashboards and alert rules: conf/grafana, conf/prometheus. Every series that they name is one that a server has, with the
labels that they ask for; promtool reads the rules and runs their unit tests (tests/conf/weir.rules.test.yaml)."""

import json
import re
import shutil
import subprocess
import unittest

import harness

import yaml

CONF = harness.ROOT / 'conf'
RULES = CONF / 'prometheus/weir.rules.yaml'
UNIT_TESTS = harness.ROOT / 'tests/conf/weir.rules.test.yaml'
PROMTOOL = shutil.which('promtool') or harness.ROOT / '.cache/promtool/usr/bin/promtool'
# Labels that Prometheus adds, and those of the vectors that the rules record.
ADDED = {'job', 'instance', 'le'}
NAME = re.compile(r'\b((?:weir|process)_[a-z0-9_]+)(?:\{([^}]*)\})?')


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted((CONF / 'grafana').glob('*.json'))}


def panels(board):
    return [panel for panel in board['panels'] if panel['type'] != 'row']


def dashboard_expressions():
    for name, board in dashboards().items():
        for panel in panels(board):
            for target in panel['targets']:
                yield f"{name}: {panel['title']}", target['expr']


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())['groups'] for rule in group['rules']]


def expressions():
    yield from dashboard_expressions()
    for rule in rules():
        yield f"{RULES.name}: {rule.get('alert') or rule['record']}", rule['expr']
    adapter = yaml.safe_load((CONF / 'kubernetes/prometheus-adapter.yaml').read_text())
    yield 'prometheus-adapter.yaml', re.sub(r'namespace!="",pod!=""', '', adapter['rules']['custom'][0]['seriesQuery'])


def promtool(*args):
    done = subprocess.run([str(PROMTOOL), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = harness.scratch()
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30', '-subj',
                        '/CN=localhost', '-keyout', scratch / 'key.pem', '-out', scratch / 'cert.pem'], check=True, stderr=subprocess.DEVNULL)
        cls.server = harness.Server('--tls-cert', scratch / 'cert.pem', '--tls-key', scratch / 'key.pem', '--access-log', scratch / 'access.log',
                                    '--max-body', '1MiB', '--tracing-otlp', 'http://127.0.0.1:9')
        url = cls.server.url
        row = {'datatype': 'INT32', 'shape': [1, 16], 'data': [1] * 16}
        good = json.dumps({'inputs': [{'name': 'INPUT0', **row}, {'name': 'INPUT1', **row}]})
        assert harness.curl(url('/v2/models/simple/infer'), data=good).status == 200
        assert harness.curl(url('/v2/models/simple/infer'), data='x' * (1 << 20) * 2).status == 413
        chat = json.dumps({'model': 'chat', 'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Hello'}]})
        assert harness.curl(url('/v1/chat/completions'), data=chat).status == 200
        cls.series = {}  # family -> names of its labels
        for line in harness.curl(url('/metrics')).body.decode().splitlines():
            if found := re.match(r'([a-zA-Z_:]+)(?:\{(.*)\})? ', line):
                cls.series.setdefault(found[1], set()).update(re.findall(r'(\w+)="', found[2] or ''))

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.output()[-3000:]

    def test_every_series_that_is_named_is_served_with_its_labels(self):
        seen = set()
        for where, expression in expressions():
            for name, matchers in NAME.findall(expression):
                self.assertIn(name, self.series, f'{where}: no server has {name}')
                labels = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)', matchers)) - ADDED
                self.assertLessEqual(labels, self.series[name], f'{where}: {name}')
                seen.add(name)
        self.assertGreater(len(seen), 40)

    def test_labels_by_which_is_grouped_are_there(self):
        for where, expression in expressions():
            names = [name for name, _ in NAME.findall(expression)]
            known = ADDED.union({'version'}, *(self.series[name] for name in names))
            for labels in re.findall(r'\bby \(([^)]*)\)', expression):
                wanted = {label.strip() for label in labels.split(',') if label.strip() and '<' not in label}
                self.assertTrue(not names or wanted <= known, f'{where}: {wanted - known}')

    def test_rules_are_good_and_do_what_their_unit_tests_say(self):
        for args in (('check', 'rules', RULES), ('test', 'rules', UNIT_TESTS)):
            code, out = promtool(*args)
            self.assertEqual(0, code, out)

    def test_every_alert_has_a_unit_test_in_which_it_fires(self):
        fired = {case['alertname'] for test in yaml.safe_load(UNIT_TESTS.read_text())['tests'] for case in test['alert_rule_test']
                 if case['exp_alerts']}
        alerts = {rule['alert']: rule for rule in rules() if 'alert' in rule}
        self.assertEqual(set(alerts), fired)
        for name, rule in alerts.items():
            self.assertIn(rule['labels']['severity'], ('page', 'ticket'), name)
            self.assertEqual({'summary', 'description'}, set(rule['annotations']), name)

    def test_expressions_of_dashboards_are_good(self):
        replaced = [{'record': 'x:y', 'expr': re.sub(r'\$__rate_interval', '5m', re.sub(r'"\$\w+"', '".*"', expression))}
                    for _, expression in dashboard_expressions()]
        for i, rule in enumerate(replaced):
            rule['record'] = f'dashboard:expression:{i}'
        path = harness.scratch() / 'dashboards.rules.yaml'
        path.write_text(yaml.safe_dump({'groups': [{'name': 'dashboards', 'rules': replaced}]}))
        code, out = promtool('check', 'rules', path)
        self.assertEqual(0, code, out)

    def test_panels_have_their_own_places(self):
        for name, board in dashboards().items():
            taken = {}
            self.assertEqual(len(board['panels']), len({panel['id'] for panel in board['panels']}), name)
            for panel in board['panels']:
                at = panel['gridPos']
                self.assertLessEqual(at['x'] + at['w'], 24, panel['title'])
                for x in range(at['x'], at['x'] + at['w']):
                    for y in range(at['y'], at['y'] + at['h']):
                        self.assertNotIn((x, y), taken, f"{name}: {panel['title']} covers {taken.get((x, y))}")
                        taken[x, y] = panel['title']
            variables = {v['name'] for v in board['templating']['list']}
            used = set(re.findall(r'\$\{?(\w+)', json.dumps(board['panels']))) - {'__rate_interval'}
            self.assertLessEqual(used, variables, name)


if __name__ == '__main__':
    harness.main()
