"""conf/kubernetes: every object is one that Kubernetes takes (schemas of npm packages), its settings are weir's, and its times
fit the server's drain."""

import copy
import json
import os
import re
import subprocess
import unittest

import harness

import yaml

FOLDER = harness.ROOT / 'conf/kubernetes'
SERVED = {'kustomization.yaml', 'prometheus-adapter.yaml'}  # not objects of a cluster
# KServe's types (pkg/apis/serving/v1alpha1/servingruntime_types.go): the fields of a runtime, and of one of its formats.
RUNTIME = {'supportedModelFormats', 'multiModel', 'disabled', 'protocolVersions', 'workerSpec', 'containers', 'volumes', 'nodeSelector',
           'affinity', 'tolerations', 'labels', 'annotations', 'imagePullSecrets', 'hostIPC'}
FORMAT = {'name', 'version', 'autoSelect', 'priority'}
PROTOCOLS = {'v1', 'v2', 'grpc-v1', 'grpc-v2'}


def objects():
    """{file name: its object}"""
    return {path.name: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob('*.yaml')) if path.name not in SERVED}


def seconds(text):
    number, unit = re.fullmatch(r'([\d.]+)(ms|s|m)', text).groups()
    return float(number) * {'ms': 1e-3, 's': 1, 'm': 60}[unit]


def complaints(documents):
    done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/kubernetes_check.js')], input=json.dumps(documents).encode(), stdout=subprocess.PIPE,
                          env={**os.environ, 'NPM_HOME': str(harness.ROOT / '.cache/npm')}, check=True)
    return json.loads(done.stdout)


class Kubernetes(unittest.TestCase):
    def pod(self):
        return objects()['deployment.yaml']['spec']['template']['spec']

    def test_objects_fit_their_schemas(self):
        documents = [o for o in objects().values() if not o['apiVersion'].startswith('serving.kserve.io')]
        self.assertEqual([], complaints(documents))

    def test_a_mistake_would_be_seen(self):
        typo, of_type = (copy.deepcopy(objects()['deployment.yaml']) for _ in range(2))
        typo['spec']['template']['spec']['containers'][0]['readinesProbe'] = {}
        of_type['spec']['replicas'] = 'two'
        self.assertEqual(['Deployment weir: no such field: spec.template.spec.containers.0.readinesProbe'], complaints([typo]))
        self.assertEqual(['Deployment weir: data/spec/replicas must be integer'], complaints([of_type]))

    def test_the_runtime_of_kserve_has_its_fields(self):
        runtime = objects()['kserve-clusterservingruntime.yaml']
        self.assertEqual(('serving.kserve.io/v1alpha1', 'ClusterServingRuntime'), (runtime['apiVersion'], runtime['kind']))
        spec = runtime['spec']
        self.assertLessEqual(set(spec), RUNTIME)
        self.assertLessEqual(set(spec['protocolVersions']), PROTOCOLS)
        for one in spec['supportedModelFormats']:
            self.assertLessEqual(set(one), FORMAT)
        self.assertEqual(['kserve-container'], [c['name'] for c in spec['containers']])
        pod = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'of-kserve'}, 'spec': {'containers': spec['containers']}}
        self.assertEqual([], complaints([pod]))

    def test_the_runtime_of_kserve_has_the_protocols_that_the_readme_names(self):
        named = re.search(r'`protocolVersions: \[([^]]+)\]`', (harness.ROOT / 'README.md').read_text())[1].split(', ')
        self.assertEqual(named, objects()['kserve-clusterservingruntime.yaml']['spec']['protocolVersions'])

    def test_the_kustomization_names_files_that_are_there(self):
        for name in yaml.safe_load((FOLDER / 'kustomization.yaml').read_text())['resources']:
            self.assertIn(name, objects())

    def test_servers_take_their_configuration_and_arguments(self):
        config = harness.scratch() / 'weir.yaml'
        config.write_text(objects()['configmap.yaml']['data']['weir.yaml'].replace('/models', str(harness.MODELS)))
        server = harness.Server('--admin-listen', '127.0.0.1:0', config=config, listen=('127.0.0.1:0', '0.0.0.0:0'))
        self.addCleanup(server.kill)
        admin = re.search(r'"admin_addresses":"(http://127\.0\.0\.1:\d+)"', server.output())[1]  # its log is JSON
        for url, logging, timelines in ((admin, 200, 200), (server.url(), 403, 403)):
            self.assertEqual(logging, harness.curl(url + '/v2/logging', '-d', '{"log_verbose_level": 0}').status, url)
            self.assertEqual(timelines, harness.curl(url + '/console/v1/timelines').status, url)
        for container in (self.pod()['containers'][0], objects()['kserve-clusterservingruntime.yaml']['spec']['containers'][0]):
            for probe in ('startupProbe', 'readinessProbe', 'livenessProbe'):
                if probe in container:
                    self.assertEqual(200, harness.curl(server.url(container[probe]['httpGet']['path'])).status, container[probe])
        self.assertEqual(0, server.stop())
        args = objects()['kserve-clusterservingruntime.yaml']['spec']['containers'][0]['args']
        self.assertEqual(['serve', '/mnt/models'], args[:2])
        server = harness.Server(*args[4:], listen=('127.0.0.1:0',))
        self.addCleanup(server.kill)
        server.process.kill()

    def test_a_pod_is_given_the_time_of_its_drain(self):
        settings = yaml.safe_load(objects()['configmap.yaml']['data']['weir.yaml'])['shutdown']
        last_calls = 5
        self.assertGreaterEqual(self.pod()['terminationGracePeriodSeconds'],
                                seconds(settings['drain_delay']) + seconds(settings['drain_timeout']) + last_calls)

    def test_a_pod_of_kserve_is_given_the_time_of_its_drain(self):
        spec = objects()['kserve-clusterservingruntime.yaml']['spec']
        args = spec['containers'][0]['args']
        took = sum(seconds(args[args.index(flag) + 1]) for flag in ('--drain-delay', '--drain-timeout'))
        last_calls, usual = 5, 30
        self.assertGreaterEqual(usual, took + last_calls)

    def test_the_image_leaves_its_settings_to_the_file(self):
        lines = (harness.ROOT / 'conf/container/Containerfile').read_text().splitlines()
        self.assertEqual([], [line for line in lines if line.startswith('ENV WEIR_')], 'a variable beats the ConfigMap')
        self.assertEqual(['listen: ["127.0.0.1:8080"]'], re.findall(r'(?m)^listen: \S+', (harness.ROOT / 'conf/weir.yaml').read_text()), 'what sed replaces')

    def test_selectors_and_ports_meet(self):
        o = objects()
        labels = o['deployment.yaml']['spec']['template']['metadata']['labels']
        for name, selector in (('deployment', o['deployment.yaml']['spec']['selector']['matchLabels']),
                               ('service', o['service.yaml']['spec']['selector']),
                               ('budget', o['poddisruptionbudget.yaml']['spec']['selector']['matchLabels']),
                               ('policy', o['networkpolicy.yaml']['spec']['podSelector']['matchLabels'])):
            self.assertLessEqual(selector.items(), labels.items(), name)
        self.assertLessEqual(o['servicemonitor.yaml']['spec']['selector']['matchLabels'].items(), o['service.yaml']['metadata']['labels'].items())
        named = {port['name'] for port in self.pod()['containers'][0]['ports']}
        self.assertLessEqual({port['targetPort'] for port in o['service.yaml']['spec']['ports']}, named)
        self.assertIn(o['servicemonitor.yaml']['spec']['endpoints'][0]['port'], {port['name'] for port in o['service.yaml']['spec']['ports']})

    def test_the_autoscaler_asks_for_the_metric_that_the_adapter_makes(self):
        rule = yaml.safe_load((FOLDER / 'prometheus-adapter.yaml').read_text())['rules']['custom'][0]
        metric = objects()['horizontalpodautoscaler.yaml']['spec']['metrics'][0]['pods']['metric']['name']
        self.assertEqual(rule['name']['as'], metric)

    def test_containers_may_do_no_more_than_serve(self):
        for container in (self.pod()['containers'][0], objects()['kserve-clusterservingruntime.yaml']['spec']['containers'][0]):
            context = container['securityContext']
            self.assertTrue(context['readOnlyRootFilesystem'])
            self.assertFalse(context['allowPrivilegeEscalation'])
            self.assertEqual(['ALL'], context['capabilities']['drop'])


if __name__ == '__main__':
    harness.main()
