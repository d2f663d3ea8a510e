// train.cpp - a factorization machine in C++, through psrt serve.
//
//   c++ -O2 -std=c++17 -o train_cpp train.cpp $(pkg-config --cflags --libs psrt)
//   ./train_cpp 127.0.0.1:7700 token train.libsvm test.libsvm
//
// A row of the table "fm_cpp" is a weight and a vector of 8. While one batch is
// computed the next one's rows are on their way.
#include <psrt.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

namespace {

constexpr std::size_t batch_lines = 512;
constexpr int epochs = 4;

struct data {
	std::vector<float> label;
	std::vector<std::size_t> begin{0}; // line i has the features begin[i] .. begin[i+1]-1
	std::vector<std::uint64_t> id;
	std::vector<float> value;
	std::size_t lines() const { return label.size(); }
};

data read_libsvm(const std::string &path)
{
	std::ifstream in(path);
	if (!in)
		throw std::runtime_error("cannot open " + path);
	data d;
	for (std::string line; std::getline(in, line);) {
		std::istringstream words(line);
		float label, value;
		std::uint64_t id;
		char colon;
		words >> label;
		while (words >> id >> colon >> value) {
			d.id.push_back(id);
			d.value.push_back(value);
		}
		d.label.push_back(label > 0 ? 1.0f : 0.0f);
		d.begin.push_back(d.id.size());
	}
	return d;
}

// A batch: its distinct ids, and the rows that are being pulled for them.
struct step {
	std::size_t first = 0, lines = 0;
	psrt::batch plan;
	std::vector<float> rows;
	psrt::request pulling; // last: it ends before the rows do
};

class machine {
public:
	machine(const psrt::client &client, const data &d) : table(client.table("fm_cpp")), dim(table.dim()), d(d) {}

	step begin(std::size_t first, std::size_t lines, const psrt::options &how = {}) const
	{
		step s;
		s.first = first;
		s.lines = lines;
		s.plan = table.plan({d.id.begin() + d.begin[first], d.id.begin() + d.begin[first + lines]});
		s.rows.resize(s.plan.unique.size() * dim);
		s.pulling = table.pull_async(s.plan.unique.data(), s.plan.unique.size(), s.rows.data(), how);
		return s;
	}

	// The probability of a click of every line. Where grads is not null the loss's
	// derivative is added to it.
	std::vector<float> run(const step &s, std::vector<float> *grads) const
	{
		std::vector<float> p(s.lines), sum(dim);
		const std::size_t from = d.begin[s.first];
		for (std::size_t i = 0; i < s.lines; i++) {
			const std::size_t low = d.begin[s.first + i], high = d.begin[s.first + i + 1];
			std::fill(sum.begin(), sum.end(), 0.0f);
			float z = 0;
			for (std::size_t j = low; j < high; j++) {
				const float *row = &s.rows[s.plan.index[j - from] * dim], x = d.value[j];
				z += row[0] * x;
				for (std::size_t k = 1; k < dim; k++) {
					sum[k] += row[k] * x;
					z -= row[k] * x * row[k] * x / 2;
				}
			}
			for (std::size_t k = 1; k < dim; k++)
				z += sum[k] * sum[k] / 2;
			p[i] = 1 / (1 + std::exp(-z));
			if (!grads)
				continue;
			const float dz = (p[i] - d.label[s.first + i]) / static_cast<float>(s.lines);
			for (std::size_t j = low; j < high; j++) {
				const std::size_t at = s.plan.index[j - from] * dim;
				const float x = d.value[j];
				(*grads)[at] += dz * x;
				for (std::size_t k = 1; k < dim; k++)
					(*grads)[at + k] += dz * x * (sum[k] - s.rows[at + k] * x);
			}
		}
		return p;
	}

	void train() const
	{
		std::vector<float> grads;
		step next = begin(0, std::min(batch_lines, d.lines()));
		while (next.lines > 0) {
			step now = std::move(next);
			now.pulling.wait();
			const std::size_t first = now.first + now.lines;
			next = step();
			if (first < d.lines())
				next = begin(first, std::min(batch_lines, d.lines() - first));
			grads.assign(now.rows.size(), 0);
			run(now, &grads);
			table.push(now.plan.unique, grads);
		}
	}

private:
	psrt::table table;
	std::size_t dim;
	const data &d;
};

// The share of pairs (click, no click) in the right order; ties count half.
double auc(const std::vector<float> &score, const std::vector<float> &label)
{
	std::vector<std::size_t> order(score.size());
	std::iota(order.begin(), order.end(), std::size_t{0});
	std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score[a] < score[b]; });
	double ranks = 0, clicks = 0;
	for (std::size_t i = 0, j; i < order.size(); i = j) {
		double here = 0;
		for (j = i; j < order.size() && score[order[j]] == score[order[i]]; j++)
			here += label[order[j]];
		ranks += here * (static_cast<double>(i + j) + 1) / 2;
		clicks += here;
	}
	return (ranks - clicks * (clicks + 1) / 2) / (clicks * (static_cast<double>(order.size()) - clicks));
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc != 5) {
		std::cerr << "usage: " << argv[0] << " HOST:PORT TOKEN_FILE TRAIN.libsvm TEST.libsvm\n";
		return 2;
	}
	const data train = read_libsvm(argv[3]), test = read_libsvm(argv[4]);
	psrt::client client("servers: ['" + std::string(argv[1]) + "']\ntoken_file: '" + argv[2] + "'\n");
	for (int epoch = 0; epoch < epochs; epoch++)
		machine(client, train).train();
	machine judge(client, test);
	step all = judge.begin(0, test.lines(), psrt::options().read_only());
	all.pulling.wait();
	std::printf("auc %.4f\n", auc(judge.run(all, nullptr), test.label));
	return 0;
} catch (const std::exception &e) {
	std::cerr << "train: " << e.what() << "\n";
	return 1;
}
